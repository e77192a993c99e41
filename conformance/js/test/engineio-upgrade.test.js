// Engine.IO: moving a session from polling to WebSocket, and everything that can go wrong on the way.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { request } from "../peer/http.js";
import { event, read } from "../peer/packet.js";
import { sleep, within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor } from "../peer/session.js";
import { UPGRADE_TIMEOUT } from "../peer/target.js";
import { notPing, openUpgrade, probe } from "../peer/upgrade.js";
import { WebSocketSession } from "../peer/websocket.js";

const path = "/engine.io/";
const upTo = (count) => Array.from({ length: count }, (_, i) => i);

/** The full move; returns the WebSocket half. */
async function upgrade(t, session) {
  const socket = await probe(t, session);
  await socket.send("5");
  return socket;
}

/** Polling still carries messages both ways. */
async function assertPollingWorks(session) {
  await session.send("4still polling");
  assert.equal(await session.next(), "4still polling");
}

describe("upgrade", () => {
  test("probe, pong, upgrade; then messages go by WebSocket", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await upgrade(t, session);
    await socket.send("4hello", Buffer.from([1, 2]));
    assert.equal(await socket.next(), "4hello");
    assert.deepEqual([...(await socket.nextBinary())], [1, 2]);
  });

  test("the heartbeat goes on after the upgrade", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await upgrade(t, session);
    socket.answersPings = false;
    for (let i = 0; i < 3; i++) {
      assert.equal(await within(socket.nextRaw(), "a ping"), "2");
      await socket.send("3");
    }
  });

  test("the old transport is refused afterwards with code 3, the session lives", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await upgrade(t, session);
    await socket.send("4a");
    assert.equal(await socket.next(), "4a");
    for (const options of [{}, { method: "POST", body: "4b" }]) {
      const answer = await request(session.target(), options);
      assert.equal(answer.status, 400);
      assert.deepEqual(JSON.parse(answer.body), { code: 3, message: "Bad request" });
    }
    await socket.send("4c");
    assert.equal(await socket.next(), "4c");
  });

  test("every poll during the upgrade is ended with a noop, not only the first", async (t) => {
    const session = await openFor(t, Polling, { path });
    const waiting = session.get();
    await sleep(20);
    const socket = await probe(t, session);
    assert.equal((await notPing(session, waiting)).body, "6");
    for (let i = 0; i < 3; i++) {
      assert.equal((await notPing(session)).body, "6");
    }
    await socket.send("5", "4moved");
    assert.equal(await socket.next(), "4moved");
  });

  test("a poll that waits when `5` arrives is ended as well", async (t) => {
    const move = async () => {
      const session = await openFor(t, Polling, { path });
      const socket = await probe(t, session);
      const waiting = session.get();
      await sleep(5);
      await socket.send("5");
      return { socket, ...(await within(waiting, "the poll")) };
    };
    let moved = await move();
    // On a busy machine a heartbeat may be due by then, which says nothing.
    for (let tries = 0; tries < 20 && moved.body === "2"; tries++) moved = await move();
    const { socket, status, body } = moved;
    // A noop, or what Node says to the transport it discards; refused if it came after `5`.
    assert.ok((status === 200 && ["6", "1"].includes(body)) || status === 400, `${status} ${body}`);
    await socket.send("4moved");
    assert.equal(await socket.next(), "4moved");
  });

  test("until `5` the session belongs to polling", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await probe(t, session);
    await assertPollingWorks(session);
    assert.deepEqual(socket.queue, []);
    await socket.send("5", "4moved");
    assert.equal(await socket.next(), "4moved");
  });

  test("what was queued for polling goes to the WebSocket, in order and complete", async (t) => {
    const session = await openFor(t, Polling, { path });
    await session.send(...upTo(300).map((i) => `4${i}`));
    const socket = await probe(t, session);
    await session.send(...upTo(100).map((i) => `4${300 + i}`));
    await socket.send("5", ...upTo(100).map((i) => `4${400 + i}`));
    const got = [];
    while (got.length < 500) got.push(await socket.next());
    assert.deepEqual(got, upTo(500).map((i) => `4${i}`));
  });

  test("polls during the upgrade and frames after it add up without a gap", async (t) => {
    const session = await openFor(t, Polling);
    await session.join("/lab");
    await session.send(event("/lab", ["burst", "tick", 200]));
    const socket = await probe(t, session);
    const early = await session.get();
    await session.send(event("/lab", ["burst", "tock", 200]));
    await socket.send("5");
    const packets = Polling.packets(early);
    while (packets.length < 400) packets.push(await socket.next());
    const expected = [...upTo(200).map((i) => ["tick", i]), ...upTo(200).map((i) => ["tock", i])];
    assert.deepEqual(packets.map((packet) => read(packet).data), expected);
  });

  test("a binary event is not torn apart by the move", async (t) => {
    const session = await openFor(t, Polling);
    await session.join("/lab");
    const blobs = ["bAQ==", "bAg==", "bAw=="];
    const text = '453-/lab,["echo",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1},{"_placeholder":true,"num":2}]';
    for (let i = 0; i < 3; i++) await session.send(text, ...blobs);
    const socket = await upgrade(t, session);
    for (let i = 0; i < 3; i++) {
      assert.equal(await socket.next(), text);
      for (const byte of [1, 2, 3]) assert.deepEqual([...(await socket.nextBinary())], [byte]);
    }
  });
});

describe("upgrade that fails", () => {
  for (const first of ["2wrong", "2", "4message", "3probe", "garbage", "6", "1"]) {
    test(`${first} instead of the probe drops the WebSocket, polling goes on`, async (t) => {
      const session = await openFor(t, Polling, { path });
      const socket = await openUpgrade(t, session);
      await socket.send(first);
      await within(socket.closed, "the WebSocket to be dropped");
      assert.deepEqual(socket.queue, []);
      await assertPollingWorks(session);
    });
  }

  test("a binary frame instead of the probe drops the WebSocket, polling goes on", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await openUpgrade(t, session);
    await socket.send(Buffer.from([1]));
    await within(socket.closed, "the WebSocket to be dropped");
    await assertPollingWorks(session);
  });

  test("a WebSocket closed before the probe leaves polling unharmed", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await openUpgrade(t, session);
    await socket.close();
    await assertPollingWorks(session);
  });

  test("a WebSocket closed after the probe leaves polling unharmed, and a second try succeeds", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await probe(t, session);
    await socket.close();
    await sleep(50);
    await assertPollingWorks(session);
    const again = await upgrade(t, session);
    await again.send("4second try");
    assert.equal(await again.next(), "4second try");
  });

  test("a silent upgrade is dropped after the upgrade timeout, polling goes on", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await openUpgrade(t, session);
    const start = performance.now();
    let over = false;
    socket.closed.then(() => (over = true));
    while (!over && performance.now() - start < 2 * UPGRADE_TIMEOUT) {
      const answer = await session.get();
      assert.equal(answer.status, 200);
      if (answer.body.includes("2")) await session.send("3");
    }
    const waited = performance.now() - start;
    assert.ok(over && waited > UPGRADE_TIMEOUT - 500, `dropped: ${over}, after ${Math.round(waited)} ms`);
    await assertPollingWorks(session);
  });

  test("a second WebSocket for an upgrading session is closed, the first one wins", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await probe(t, session);
    await assertClosedAtOnce(t, session);
    await socket.send("5", "4first");
    assert.equal(await socket.next(), "4first");
  });

  test("a second WebSocket for an upgraded session is closed, the session lives", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await upgrade(t, session);
    await socket.send("4a");
    assert.equal(await socket.next(), "4a");
    await assertClosedAtOnce(t, session);
    await socket.send("4b");
    assert.equal(await socket.next(), "4b");
  });

  test("a second WebSocket for a session that began with WebSocket does the session no harm", async (t) => {
    const socket = await openFor(t, WebSocketSession, { path });
    const target = { target: () => `${path}?EIO=4&transport=websocket&sid=${socket.sid}` };
    const second = await WebSocketSession.upgrade(target).catch((error) => error);
    // Node would even let it probe; refusing it is as good.
    if (second instanceof WebSocketSession) await second.close();
    else assert.equal(second.status, 400);
    await socket.send("4b");
    assert.equal(await socket.next(), "4b");
  });

  // The stock client stops polling at `3probe` and does not look at the WebSocket's close until it
  // has sent `5`: closed earlier, it would sit there until its own ping timeout.
  for (const [how, farewell] of [["drop", []], ["kick-close", ["41/lab,"]]]) {
    test(`a session that the server closes (${how}) between probe and \`5\` hears of it on the WebSocket after \`5\``, async (t) => {
      const session = await openFor(t, Polling);
      await session.join("/lab");
      const socket = await probe(t, session);
      await session.send(event("/lab", [how]));
      assert.equal(await Promise.race([socket.closed.then(() => "closed"), sleep(100, "open")]), "open");
      await socket.send("5");
      for (const packet of farewell) assert.equal(await socket.next(), packet);
      await within(socket.closed, "the close");
    });
  }

  test("a session that dies during the upgrade takes the WebSocket along", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await probe(t, session);
    await session.post("1");
    await within(socket.closed, "the WebSocket to close");
  });
});

/** Accepted and closed, or refused over HTTP: either way no second WebSocket. */
async function assertClosedAtOnce(t, session) {
  try {
    const second = await WebSocketSession.upgrade(session);
    t.after(() => second.close());
    await second.send("2probe");
    await within(second.closed, "the second WebSocket to close");
    assert.deepEqual(second.queue, []);
  } catch (error) {
    assert.equal(error.status, 400, error.message);
  }
}
