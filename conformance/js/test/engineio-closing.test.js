// Engine.IO: how sessions end, by the client and by the server.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { request } from "../peer/http.js";
import { connect, event } from "../peer/packet.js";
import { eventually, sleep, within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor } from "../peer/session.js";
import { isReference, REFUSED_MS, strictUrl } from "../peer/target.js";
import { CLOSE, frame, TcpClient, TEXT } from "../peer/tcp.js";
import { WebSocketSession } from "../peer/websocket.js";

const GONE = { status: 400, code: 1, message: "Session ID unknown" };
const ENDPOINTS = ["/engine.io/", "/socket.io/"];

describe("closing by the client", () => {
  for (const path of ENDPOINTS) {
    test(`polling at ${path}: POST \`1\` ends the waiting poll with a noop, the session is gone`, async (t) => {
      let session;
      let polled;
      // On a busy machine the poll may come after the close, or the next heartbeat before it.
      for (let tries = 0; tries < 20 && (polled?.status !== 200 || polled.body === "2"); tries++) {
        session = await openFor(t, Polling, { path });
        // Just after a heartbeat, so that the poll is still waiting when the close comes.
        assert.equal((await session.get()).body, "2");
        await session.send("3");
        const poll = session.get();
        await sleep(20);
        const answer = await session.post("1");
        assert.deepEqual({ status: answer.status, body: answer.body }, { status: 200, body: "ok" });
        polled = await within(poll, "the waiting poll");
      }
      assert.deepEqual({ status: polled.status, body: polled.body }, { status: 200, body: "6" });
      assert.deepEqual(await session.ended(), GONE);
      const post = await request(session.target(), { method: "POST", body: "4x" });
      assert.equal(post.status, 400);
      assert.deepEqual(JSON.parse(post.body), { code: 1, message: "Session ID unknown" });
    });

    test(`websocket at ${path}: a close frame ends the session`, async (t) => {
      const session = await openFor(t, WebSocketSession, { path });
      session.socket.close();
      await within(session.closed, "the close");
      await forgotten(path, session.sid);
    });

    test(`websocket at ${path}: the packet \`1\` ends the session too`, async (t) => {
      const session = await openFor(t, WebSocketSession, { path, from: strictUrl });
      // Node ignores it on a WebSocket, so there the session ends by its heartbeat.
      session.answersPings = false;
      await session.send("1");
      await within(session.closed, "the close");
    });
  }

  test("a WebSocket whose TCP connection just ends is gone", async (t) => {
    const client = await TcpClient.upgrade(t, "/socket.io/?EIO=4&transport=websocket");
    assert.equal(client.head.status, 101);
    const open = JSON.parse((await client.readFrame()).payload.toString().slice(1));
    client.socket.destroy();
    await forgotten("/socket.io/", open.sid);
  });
});

describe("closing by the server", () => {
  test("polling: the close is `1` for the waiting poll, kept for the next one otherwise", async (t) => {
    for (const waits of [true, false]) {
      const session = await openFor(t, Polling);
      await session.join("/lab");
      const poll = waits ? session.get() : undefined;
      if (waits) await sleep(50);
      await session.send(event("/lab", ["drop"]));
      if (!waits) await sleep(50);
      const first = await within(poll ?? session.get(), "the poll");
      const packets = await untilClosePacket(session, first);
      assert.deepEqual(packets, ["1"], `waiting: ${waits}`);
      assert.deepEqual(await session.ended(), GONE);
    }
  });

  test("polling: what was emitted before the close is delivered before it", async (t) => {
    const session = await openFor(t, Polling);
    await session.join("/lab");
    await session.send(event("/lab", ["burst", "tick", 50]), event("/lab", ["kick-close"]));
    const packets = await untilClosePacket(session, await session.get());
    const expected = [...Array.from({ length: 50 }, (_, i) => event("/lab", ["tick", i])), "41/lab,", "1"];
    assert.deepEqual(packets, expected);
    assert.deepEqual(await session.ended(), GONE);
  });

  test("websocket: a close frame without a status, no `1` packet, queued packets first", async (t) => {
    const client = await TcpClient.upgrade(t, "/socket.io/?EIO=4&transport=websocket");
    const send = (text) => client.write(frame(TEXT, text));
    await client.readFrame();
    send(connect("/lab"));
    assert.match((await client.readFrame()).payload.toString(), /^40\/lab,/);
    send(event("/lab", ["burst", "tick", 50]));
    send(event("/lab", ["kick-close"]));
    for (let i = 0; i < 50; i++) assert.equal((await client.readFrame()).payload.toString(), event("/lab", ["tick", i]));
    assert.equal((await client.readFrame()).payload.toString(), "41/lab,");
    const last = await client.readFrame();
    assert.equal(last.opcode, CLOSE);
    assert.equal(last.payload.length, 0);
  });

  test("websocket: TCP ends soon after the close frame though the client never answers it", async (t) => {
    const client = await TcpClient.upgrade(t, "/socket.io/?EIO=4&transport=websocket");
    await client.readFrame();
    client.write(frame(TEXT, connect("/lab")));
    await client.readFrame();
    client.write(frame(TEXT, event("/lab", ["kick-close"])));
    assert.equal((await client.readFrame()).payload.toString(), "41/lab,");
    assert.equal((await client.readFrame()).opcode, CLOSE);
    // The Java client leaves the answer to its application. Node waits 30 s for it, we at most 5 s.
    await within(client.ended, "the end of TCP", isReference ? 32_000 : 6_000);
  });
});

/** Resolves when a request for the session is refused with code 1. */
function forgotten(path, sid) {
  return eventually(async () => {
    const answer = await request(`${path}?EIO=4&transport=polling&sid=${sid}`);
    return answer.status === 400 && JSON.parse(answer.body).code === 1;
  }, "the session is unknown, before its heartbeat would end it", REFUSED_MS);
}

/** All packets of this answer and the following ones, up to and with `1`. */
async function untilClosePacket(session, first) {
  const packets = [];
  for (let answer = first; ; answer = await within(session.get(), "the close packet")) {
    if (answer.status !== 200) throw new Error(`no close packet before ${answer.status} ${answer.body}; had ${packets}`);
    packets.push(...Polling.packets(answer));
    if (packets.includes("1")) return packets;
  }
}
