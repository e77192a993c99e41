// Clients that hear nothing for long, against a server started with --recovery. What others are told drives all else out of its log: this runs
// when nobody else is away.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { numbers, stage } from "../peer/away.js";
import { event } from "../peer/packet.js";
import "../peer/ends.js";
import { eventually } from "../peer/patience.js";
import { openFor } from "../peer/session.js";
import { once, record, RECOVERING_COMBINATIONS, settled } from "../peer/stock.js";
import { isReference, recoveryUrl as from } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

if (!from) throw new Error("CONFORMANCE_RECOVERY_URL is not set: give the URL of a server started with --recovery");

/** Twice what the log of the application keeps. */
const NOISE = Array(20).fill("x".repeat(200_000));
const PATIENCE_MS = 20_000;

/** All but the members of a room are told more than a log keeps. */
async function drown(speaker, room) {
  for (const noise of NOISE) speaker.emit("except", room, "noise", noise);
  await settled(speaker);
}

for (const client of RECOVERING_COMBINATIONS) {
  describe(client.name, () => {
    test("a client whose last event left the log long ago comes back, and has missed nothing", async (t) => {
      const { socket, speaker, room, say, away } = await stage(t, client);
      const seen = record(socket, "tick");
      await say(0, 3);
      await drown(speaker, room);
      // The answer to a ping says that it has all. The first ping may be from before, and the second is answered when the third comes.
      for (let pings = 0; pings < 3; pings += 1) await once(socket.io, "ping", PATIENCE_MS);
      assert.ok(await away("reset", () => say(3, 8)));
      await eventually(() => seen.length >= 8, "all came");
      await settled(socket);
      assert.deepEqual(seen, numbers(0, 8));
    });
  });
}

// Socket.IO's server keeps events by their age alone.
test("a client whose missed events left the log is somebody new", { skip: isReference }, async (t) => {
  const { speaker, room } = await stage(t, RECOVERING_COMBINATIONS[1]);
  const session = await openFor(t, WebSocketSession, { from });
  const { sid, pid } = await session.join("/lab");
  await session.ask("/lab", 1, "join", room);
  await session.send(event("/lab", ["drop"]));
  await session.ended();
  speaker.emit("in", room, "tick", 1);
  await settled(speaker);
  await drown(speaker, room);
  const back = await openFor(t, WebSocketSession, { from });
  assert.notEqual((await back.join("/lab", { pid })).sid, sid);
});
