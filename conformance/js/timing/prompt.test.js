// Socket.IO and Engine.IO: what must come soon, and what must not come too soon.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ack, connect, disconnect, event } from "../peer/packet.js";
import { Late, sleep, timed, unhurried } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { keptAlive, openFor, PING } from "../peer/session.js";
import { CONNECT_TIMEOUT, strictUrl } from "../peer/target.js";
import { notPing, probe } from "../peer/upgrade.js";
import { WebSocketSession } from "../peer/websocket.js";

const path = "/engine.io/";
/** Timers may fire this much early: clocks differ. */
const EARLY_MS = 15;

/** With a session of its own each time. */
const measured = (what, measure) => test(what, (t) => unhurried(() => measure(t)));

/** It took less, or is measured again. */
function assertSoon(ms, most, what) {
  if (ms >= most) throw new Late(`${what} took ${Math.round(ms)} ms, ${most} at most`);
}

/** The end of a session that joins nothing: measured from before it began, and from then on. A client that is late with a pong hears of it sooner. */
function assertTimedOut(begun, since) {
  const [longest, shortest] = [performance.now() - begun, performance.now() - since];
  const took = `closed after ${Math.round(shortest)} to ${Math.round(longest)} ms`;
  if (longest <= CONNECT_TIMEOUT - EARLY_MS || shortest >= CONNECT_TIMEOUT + 1200) throw new Late(took);
}

measured("a waiting poll is answered as soon as there is something to say", async (t) => {
  const session = await openFor(t, Polling, { path });
  const poll = session.get();
  await sleep(50);
  const start = performance.now();
  await session.send("4now");
  const { body } = await poll;
  if (body === PING) throw new Late("a heartbeat was due before");
  assert.equal(body, "4now");
  assertSoon(performance.now() - start, 200, "the answer");
});

describe("polls beside an upgrade", () => {
  measured("those after the first are ended at once as well", async (t) => {
    const session = await openFor(t, Polling, { path });
    await probe(t, session);
    for (let i = 0; i < 4; i++) {
      const { ms, value } = await timed(() => notPing(session));
      assert.equal(value.body, "6");
      assertSoon(ms, 250, `poll ${i + 1}`);
    }
  });

  measured("polls wait again after an aborted upgrade instead of being ended at once", async (t) => {
    const session = await openFor(t, Polling, { path });
    const socket = await probe(t, session);
    await socket.close();
    await sleep(150);
    const { ms, value } = await timed(() => session.get());
    assert.equal(value.body, PING);
    if (ms <= 50) throw new Late(`a heartbeat was due: the poll was ended after ${Math.round(ms)} ms`);
  });
});

for (const Transport of [Polling, WebSocketSession]) {
  // Only this server has a connect timeout of a second.
  const open = (t) => openFor(t, Transport, { from: strictUrl });

  describe(`the connect timeout over ${Transport.transport}`, () => {
    measured("a transport that joins nothing is closed after connectTimeout", async (t) => {
      const begun = performance.now();
      const session = await open(t);
      const since = performance.now();
      await keptAlive(session);
      assertTimedOut(begun, since);
    });

    measured("refused namespaces do not stop connectTimeout", async (t) => {
      const begun = performance.now();
      const session = await open(t);
      const since = performance.now();
      await session.send(connect("/nope"));
      await keptAlive(session);
      assertTimedOut(begun, since);
    });

    measured("one joined namespace stops connectTimeout for good, even when left again", async (t) => {
      const session = await open(t);
      await session.join("/lab");
      await session.send(disconnect("/lab"));
      const alive = keptAlive(session).then(() => "ended");
      const outcome = await Promise.race([alive, sleep(CONNECT_TIMEOUT + 400, "alive")]);
      // Or a pong came late.
      if (outcome !== "alive") throw new Late(outcome);
    });
  });
}

describe("questions to many", () => {
  let rooms = 0;
  const nobody = `prompt-nobody-${process.pid}`;

  measured("it completes with the last answer, not with the timeout", async (t) => {
    const room = `prompt-${process.pid}-${(rooms += 1)}`;
    const session = await openFor(t, WebSocketSession);
    await session.join("/lab");
    await session.ask("/lab", 0, "join", room);
    const { ms } = await timed(async () => {
      await session.send(event("/lab", ["collect", room, 3000, "poll"], 1));
      await session.send(ack("/lab", (await session.read()).id, [1]));
      assert.deepEqual((await session.read()).data, [null, [1]]);
    });
    assertSoon(ms, 1000, "it");
  });

  measured("questions to nobody and to the cluster are answered at once", async (t) => {
    const session = await openFor(t, WebSocketSession);
    await session.join("/lab");
    const { ms } = await timed(async () => {
      assert.deepEqual(await session.ask("/lab", 1, "fetch", nobody), [null, []]);
      assert.deepEqual(await session.ask("/lab", 2, "collect", nobody, 3000, "poll"), [null, []]);
      assert.deepEqual(await session.ask("/lab", 3, "server-count"), [1]);
      assert.deepEqual(await session.ask("/lab", 4, "server-side-ask", "ping-nodes", 1), [null, []]);
    });
    assertSoon(ms, 1000, "it");
  });
});
