// Clients that lose their network and come back, against a server started with --recovery: the causes for which recovery fails with one
// offset in one buffer, each with the stock client, and each with cuts that are not polite.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CUTS, numbers, stage } from "../peer/away.js";
import { event } from "../peer/packet.js";
import "../peer/ends.js";
import { eventually } from "../peer/patience.js";
import { openFor } from "../peer/session.js";
import { ask, record, RECOVERING_COMBINATIONS, settled } from "../peer/stock.js";
import { recoveryUrl as from } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

if (!from) throw new Error("CONFORMANCE_RECOVERY_URL is not set: give the URL of a server started with --recovery");

for (const client of RECOVERING_COMBINATIONS) {
  describe(client.name, () => {
    for (const cut of Object.keys(CUTS)) {
      test(`gets what it missed, once and in order, after ${cut}`, async (t) => {
        const { socket, say, away } = await stage(t, client);
        const seen = record(socket, "tick");
        await say(0, 5);
        assert.ok(await away(cut, () => say(5, 25)));
        await say(25, 30);
        await eventually(() => seen.length >= 30, "all came");
        await settled(socket);
        assert.deepEqual(seen, numbers(0, 30));
      });

      test(`needs no event before ${cut} to come back`, async (t) => {
        const { socket, say, away } = await stage(t, client);
        const seen = record(socket, "tick");
        assert.ok(await away(cut, () => say(0, 5)));
        await eventually(() => seen.length >= 5, "all came");
        await settled(socket);
        assert.deepEqual(seen, numbers(0, 5));
      });
    }

    test("a volatile event that ends in a string is not taken for an offset", async (t) => {
      const { socket, speaker, room, say, away } = await stage(t, client);
      const seen = record(socket, "tick");
      await say(0, 3);
      // A poll may not wait at this instant: then it is dropped, as volatile events are.
      const moods = record(socket, "mood");
      await eventually(async () => {
        speaker.emit("in-volatile", room, "mood", "a string at the end");
        await settled(speaker);
        return moods.length > 0;
      }, "a volatile event came");
      assert.ok(await away("reset", () => say(3, 6)));
      await eventually(() => seen.length >= 6, "all came");
      await settled(socket);
      assert.deepEqual(seen, numbers(0, 6));
    });

    test("what came after a return does not come again after the next one", async (t) => {
      const { socket, say, away } = await stage(t, client);
      const seen = record(socket, "tick");
      for (const [round, cut] of ["reset", "silence", "reset", "a restart of the proxy"].entries()) {
        assert.ok(await away(cut, () => say(round * 10, round * 10 + 10)), `return ${round}`);
      }
      await eventually(() => seen.length >= 40, "all came");
      await settled(socket);
      assert.deepEqual(seen, numbers(0, 40));
    });

    test("rooms that it joined and left stay so, and nothing after a leave comes", async (t) => {
      const { socket, speaker, room, id, away } = await stage(t, client);
      const seen = record(socket, "tick");
      const other = `${room}-other`;
      await ask(socket, "join", other);
      await ask(socket, "leave", room);
      const meanwhile = async () => {
        speaker.emit("in", room, "tick", "not any more");
        speaker.emit("in", other, "tick", 1);
        speaker.emit("in", id, "tick", 2);
        await settled(speaker);
      };
      assert.ok(await away("reset", meanwhile));
      speaker.emit("in", room, "tick", "not any more");
      speaker.emit("in", other, "tick", 3);
      speaker.emit("in", id, "tick", 4);
      await eventually(() => seen.length >= 4, "all came");
      await settled(socket);
      assert.deepEqual(seen, [1, 2, 3, 4]);
    });
  });
}

const lab = async (t, auth) => {
  const session = await openFor(t, WebSocketSession, { from });
  const { sid, pid } = await session.join("/lab", auth);
  return Object.assign(session, { id: sid, pid });
};

test("a pid that lives elsewhere moves: the old connection ends, and there is one socket", async (t) => {
  const first = await lab(t);
  const second = await lab(t, { pid: first.pid });
  await first.ended();
  assert.deepEqual([second.id, second.pid], [first.id, first.pid]);
  const [, found] = await second.ask("/lab", 1, "fetch", first.id);
  assert.equal(found.length, 1);
});

test("of many that show one pid at once each gets an answer, and one socket is left", async (t) => {
  const first = await lab(t);
  const open = await Promise.all(Array.from({ length: 12 }, () => openFor(t, WebSocketSession, { from })));
  const replies = open.map(async (session) => {
    try {
      return { session, ...(await session.join("/lab", { pid: first.pid })) };
    } catch {
      return null;
    }
  });
  const answered = (await Promise.all(replies)).filter(Boolean);
  assert.ok(answered.length >= 1);
  const witness = await lab(t);
  const [, found] = await witness.ask("/lab", 1, "fetch", first.id);
  assert.ok(found.length <= 1, `${found.length} sockets have one id`);
  for (const { pid, sid } of answered) assert.equal(pid === first.pid, sid === first.id);
});

test("a made-up pid, half a pid and 16 KB of one are no fault", async (t) => {
  for (const pid of ["A".repeat(28), "A".repeat(27), "A".repeat(16_000), "", "../../etc"]) {
    const session = await lab(t, { pid, offset: pid });
    assert.notEqual(session.pid, pid);
  }
});

test("neither pid nor offset is in what handlers see", async (t) => {
  const first = await lab(t, { user: "ann" });
  const back = await lab(t, { user: "ann", pid: first.pid, offset: "AAAAAAAAAAAAAAAA" });
  const [who] = await back.ask("/lab", 1, "who");
  assert.deepEqual(who.auth, { user: "ann" });
});

test("somebody kicked while away does not come back", async (t) => {
  const witness = await lab(t);
  const first = await lab(t);
  await first.send(event("/lab", ["drop"]));
  await first.ended();
  await witness.emit("/lab", "sockets-kick", first.id);
  await witness.ask("/lab", 1, "echo", "sent");
  const back = await lab(t, { pid: first.pid });
  assert.notEqual(back.id, first.id);
});

test("rooms that somebody was put into while away are his when he comes back", async (t) => {
  const witness = await lab(t);
  const first = await lab(t);
  await first.send(event("/lab", ["drop"]));
  await first.ended();
  const room = `put-${first.id}`;
  await witness.emit("/lab", "sockets-join", first.id, room);
  await witness.emit("/lab", "in", room, "tick", 1);
  await witness.ask("/lab", 2, "echo", "sent");
  const back = await lab(t, { pid: first.pid });
  assert.equal(back.id, first.id);
  assert.deepEqual((await back.read()).data.slice(0, 2), ["tick", 1]);
  const [, [found]] = await back.ask("/lab", 3, "fetch", back.id);
  assert.ok(found.rooms.includes(room));
});

test("somebody who is away is in no list and no count", async (t) => {
  const witness = await lab(t);
  const first = await lab(t);
  await first.send(event("/lab", ["drop"]));
  await first.ended();
  const [, found] = await witness.ask("/lab", 1, "fetch", first.id);
  assert.deepEqual(found, []);
});

test("he does not get his own broadcast when he comes back", async (t) => {
  const first = await lab(t);
  const room = `own-${first.id}`;
  await first.ask("/lab", 1, "join", room);
  await first.emit("/lab", "to", room, "tick", "mine");
  await first.ask("/lab", 2, "echo", "sent");
  await first.send(event("/lab", ["drop"]));
  await first.ended();
  const back = await lab(t, { pid: first.pid });
  assert.equal(back.id, first.id);
  await back.emit("/lab", "echo", "next");
  const { data } = await back.read();
  assert.notEqual(data[1], "mine");
});
