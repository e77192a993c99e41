// Engine.IO: the heartbeat. The server pings, the client answers, and silence ends the session.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Late, sleep, timed, unhurried, within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor, PING, PONG } from "../peer/session.js";
import { PING_INTERVAL, PING_TIMEOUT, strictUrl } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

/** Timers may fire this much early (clocks differ) or late (a busy machine). */
const EARLY_MS = 15;
const LATE_MS = 400;

/** `longest` is measured from before the step that starts the clock, `shortest` from after it. */
function assertAbout(longest, expected, what, shortest = longest) {
  const took = `${what} took ${Math.round(shortest)} to ${Math.round(longest)} ms, expected ${expected}`;
  assert.ok(longest >= expected - EARLY_MS, took);
  if (shortest > expected + LATE_MS) throw new Late(took);
}

/** With a session of its own each time. */
const measured = (what, measure) => test(what, (t) => unhurried(() => measure(t)));

async function openSilent(t, Transport) {
  const session = await openFor(t, Transport, { path: "/engine.io/", from: strictUrl });
  session.answersPings = false;
  return session;
}

const nextPing = (session) => timed(() => within(session.nextRaw(), "a ping"));

for (const Transport of [Polling, WebSocketSession]) {
  describe(`heartbeat over ${Transport.transport}`, () => {
    measured("the server pings with the text `2`, first after pingInterval", async (t) => {
      const start = performance.now();
      const session = await openSilent(t, Transport);
      const { ms, value } = await nextPing(session);
      assert.equal(value, PING);
      assertAbout(performance.now() - start, PING_INTERVAL, "the first ping", ms);
    });

    measured("the next ping comes pingInterval after the pong, not after the ping", async (t) => {
      const session = await openSilent(t, Transport);
      await nextPing(session);
      await sleep(PING_TIMEOUT / 2);
      const start = performance.now();
      await session.send(PONG);
      const { ms, value } = await nextPing(session);
      assert.equal(value, PING);
      assertAbout(performance.now() - start, PING_INTERVAL, "the ping after the pong", ms);
    });

    measured("answered pings keep the session for many intervals", async (t) => {
      const session = await openSilent(t, Transport);
      for (let i = 0; i < 5; i++) {
        assert.equal((await nextPing(session)).value, PING);
        await session.send(PONG);
      }
      await session.send("4still here");
      assert.equal(await session.next(), "4still here");
    });

    measured("no pong within pingTimeout ends the session", async (t) => {
      const start = performance.now();
      const session = await openSilent(t, Transport);
      await nextPing(session);
      const { ms } = await timed(() => within(session.ended(), "the end"));
      assertAbout(performance.now() - start, PING_INTERVAL + PING_TIMEOUT, "the end of the silent session", ms + PING_INTERVAL);
    });

    measured("an unsolicited pong is harmless", async (t) => {
      const session = await openSilent(t, Transport);
      await session.send(PONG);
      await session.send(PONG);
      await session.send("4alive");
      assert.equal(await session.next(), "4alive");
      assert.equal((await nextPing(session)).value, PING);
      await session.send(PONG);
      await session.send("4alive again");
      assert.equal(await session.next(), "4alive again");
    });

    measured("a ping from the client ends the session", async (t) => {
      const session = await openSilent(t, Transport);
      // Node closes while it answers the POST, so how that answer ends is not the point here.
      await session.send(PING).catch(() => {});
      await within(session.ended(), "the end");
    });

    measured("a steady stream of data does not starve the ping", async (t) => {
      const start = performance.now();
      const session = await openSilent(t, Transport);
      for (let i = 0; ; i++) {
        await session.send(`4${i}`);
        const packet = await within(session.nextRaw(), "an echo or a ping");
        if (packet === PING) break;
        assert.equal(packet, `4${i}`);
      }
      assertAbout(performance.now() - start, PING_INTERVAL, "the ping under data");
    });
  });
}

measured("no RFC 6455 ping is sent where browsers expect Engine.IO's", async (t) => {
  const session = await openFor(t, WebSocketSession, { from: strictUrl });
  let pings = 0;
  session.socket.on("ping", () => pings++);
  await session.join("/lab");
  await sleep(3 * PING_INTERVAL);
  assert.equal(pings, 0);
});

measured("a poll that waits when its session times out is answered `1`, then code 1", async (t) => {
  const session = await openSilent(t, Polling);
  assert.equal((await session.get()).body, PING);
  const { status, body } = await within(session.get(), "the waiting poll");
  if (status === 400) throw new Late("the poll came when the session was over");
  assert.deepEqual({ status, body }, { status: 200, body: "1" });
  assert.deepEqual(await session.ended(), { status: 400, code: 1, message: "Session ID unknown" });
});

measured("a polling session that never polls is gone after pingInterval + pingTimeout", async (t) => {
  const session = await openFor(t, Polling, { from: strictUrl });
  await sleep(PING_INTERVAL + PING_TIMEOUT + LATE_MS);
  const { status, body } = await session.get();
  if (status === 200) throw new Late(`it is still there, and has ${body}`);
  assert.deepEqual({ status, ...JSON.parse(body) }, { status: 400, code: 1, message: "Session ID unknown" });
});

for (const Transport of [Polling, WebSocketSession]) {
  measured(`a Socket.IO session over ${Transport.transport} that stops answering is closed`, async (t) => {
    const session = await openFor(t, Transport, { from: strictUrl });
    await session.join("/lab");
    session.answersPings = false;
    const { ms } = await timed(() => within(session.ended(), "the end"));
    if (ms >= PING_INTERVAL + PING_TIMEOUT + LATE_MS) throw new Late(`closed after ${Math.round(ms)} ms`);
  });
}

measured("an answer to a ping may wait behind a big upload", async (t) => {
  const session = await openSilent(t, WebSocketSession);
  const big = "x".repeat(900_000);
  assert.equal((await nextPing(session)).value, PING);
  await session.send(`4${big}`, PONG);
  assert.equal((await session.next()).length, big.length + 1);
  assert.equal((await nextPing(session)).value, PING);
});
