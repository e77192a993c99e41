// Socket.IO and Engine.IO: what must come soon, and what must not come too soon.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ack, connect, disconnect, event } from "../peer/packet.js";
import { sleep, timed } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { keptAlive, openFor } from "../peer/session.js";
import { CONNECT_TIMEOUT, strictUrl } from "../peer/target.js";
import { notPing, probe } from "../peer/upgrade.js";
import { WebSocketSession } from "../peer/websocket.js";

const path = "/engine.io/";

test("a waiting poll is answered as soon as there is something to say", async (t) => {
  const session = await openFor(t, Polling, { path });
  const poll = session.get();
  await sleep(50);
  const start = performance.now();
  await session.send("4now");
  assert.equal((await poll).body, "4now");
  assert.ok(performance.now() - start < 200);
});

describe("polls beside an upgrade", () => {
  test("those after the first are ended at once as well", async (t) => {
    const session = await openFor(t, Polling, { path });
    await probe(t, session);
    for (let i = 0; i < 4; i++) {
      const { ms, value } = await timed(() => notPing(session));
      assert.equal(value.body, "6");
      assert.ok(ms < 250, `poll ${i + 1} waited ${Math.round(ms)} ms`);
    }
  });

  test("polls wait again after an aborted upgrade instead of being ended at once", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await probe(t, session);
    await socket.close();
    await sleep(150);
    const { ms, value } = await timed(() => session.get());
    assert.equal(value.body, "2");
    assert.ok(ms > 50, `the poll was ended after ${Math.round(ms)} ms`);
  });
});

for (const Transport of [Polling, WebSocketSession]) {
  // Only this server has a connect timeout of a second.
  const open = (t) => openFor(t, Transport, { from: strictUrl });

  describe(`the connect timeout over ${Transport.transport}`, () => {
    test("a transport that joins nothing is closed after connectTimeout", async (t) => {
      const session = await open(t);
      const { ms } = await timed(() => keptAlive(session));
      assert.ok(ms > CONNECT_TIMEOUT - 100 && ms < CONNECT_TIMEOUT + 1200, `closed after ${Math.round(ms)} ms`);
    });

    test("refused namespaces do not stop connectTimeout", async (t) => {
      const session = await open(t);
      await session.send(connect("/nope"));
      const { ms } = await timed(() => keptAlive(session));
      assert.ok(ms > CONNECT_TIMEOUT - 150 && ms < CONNECT_TIMEOUT + 1200, `closed after ${Math.round(ms)} ms`);
    });

    test("one joined namespace stops connectTimeout for good, even when left again", async (t) => {
      const session = await open(t);
      await session.join("/lab");
      await session.send(disconnect("/lab"));
      const alive = keptAlive(session).then(() => "ended");
      assert.equal(await Promise.race([alive, sleep(CONNECT_TIMEOUT + 400, "alive")]), "alive");
    });
  });
}

describe("questions to many", () => {
  const room = `prompt-${process.pid}`;
  const nobody = `prompt-nobody-${process.pid}`;

  test("it completes with the last answer, not with the timeout", async (t) => {
    const session = await openFor(t, WebSocketSession);
    await session.join("/lab");
    await session.ask("/lab", 0, "join", room);
    const { ms } = await timed(async () => {
      await session.send(event("/lab", ["collect", room, 3000, "poll"], 1));
      await session.send(ack("/lab", (await session.read()).id, [1]));
      assert.deepEqual((await session.read()).data, [null, [1]]);
    });
    assert.ok(ms < 1000, `${ms} ms`);
  });

  test("questions to nobody and to the cluster are answered at once", async (t) => {
    const session = await openFor(t, WebSocketSession);
    await session.join("/lab");
    const { ms } = await timed(async () => {
      assert.deepEqual(await session.ask("/lab", 1, "fetch", nobody), [null, []]);
      assert.deepEqual(await session.ask("/lab", 2, "collect", nobody, 3000, "poll"), [null, []]);
      assert.deepEqual(await session.ask("/lab", 3, "server-count"), [1]);
      assert.deepEqual(await session.ask("/lab", 4, "server-side-ask", "ping-nodes", 1), [null, []]);
    });
    assert.ok(ms < 1000, `${ms} ms`);
  });
});
