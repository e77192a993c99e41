// Rooms and broadcasts: who gets what, exactly once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, connected, once, record } from "../peer/stock.js";

/** Three clients, unique room names, and a way to see which of them heard an event. */
async function trio(t, client) {
  const members = await Promise.all(["a", "b", "c"].map((user) => client.connect(t, "/lab", { auth: { user } })));
  const [{ id }] = members;
  // Named so that the raw sessions of other suites know to overhear it.
  const event = `everyone-said-${id}`;
  const heard = members.map((socket) => record(socket, event));
  return {
    members,
    event,
    room: (name) => `${name}-${id}`,
    /** A marker to the three behind the broadcasts; then what each heard. */
    async tally() {
      const markers = members.map((socket) => once(socket, `marker-${id}`));
      members[0].emit("in", members.map((socket) => socket.id).filter(Boolean), `marker-${id}`);
      await Promise.all(markers);
      return heard.map((list) => list.splice(0));
    },
  };
}

export function broadcasts(client) {
  test("join and leave list the socket's rooms, its own id among them", async (t) => {
    const socket = await client.connect(t);
    const joined = async (...args) => (await ask(socket, ...args))[0].sort();
    assert.deepEqual(await joined("join", "~1"), [socket.id, "~1"].sort());
    assert.deepEqual(await joined("join", "~1"), [socket.id, "~1"].sort());
    assert.deepEqual(await joined("join", "~2"), [socket.id, "~1", "~2"].sort());
    assert.deepEqual(await joined("leave", "~1"), [socket.id, "~2"].sort());
    assert.deepEqual(await joined("leave", "never joined"), [socket.id, "~2"].sort());
  });

  test("`to` leaves the sender out, `in` does not, strangers hear nothing", async (t) => {
    const { members, event, room, tally } = await trio(t, client);
    const [a, b] = members;
    await Promise.all([a, b].map((socket) => ask(socket, "join", room("r"))));
    a.emit("to", room("r"), event, "to");
    assert.deepEqual(await tally(), [[], ["to"], []]);
    a.emit("in", room("r"), event, "in");
    assert.deepEqual(await tally(), [["in"], ["in"], []]);
    a.emit("in", room("empty"), event, "nobody");
    assert.deepEqual(await tally(), [[], [], []]);
  });

  test("a socket in several target rooms gets one copy", async (t) => {
    const { members, event, room, tally } = await trio(t, client);
    const [a, b, c] = members;
    await Promise.all([ask(b, "join", room("r1")), ask(b, "join", room("r2")), ask(c, "join", room("r2"))]);
    a.emit("to", [room("r1"), room("r2")], event, "once");
    assert.deepEqual(await tally(), [[], ["once"], ["once"]]);
    a.emit("in", [room("r1"), b.id, c.id, a.id], event, "ids are rooms");
    assert.deepEqual(await tally(), [["ids are rooms"], ["ids are rooms"], ["ids are rooms"]]);
  });

  test("`except` wins over membership", async (t) => {
    const { members, event, room, tally } = await trio(t, client);
    const [a, b, c] = members;
    await Promise.all([ask(b, "join", room("not")), ask(b, "join", room("r")), ask(c, "join", room("r"))]);
    a.emit("except", room("not"), event, "but b");
    assert.deepEqual(await tally(), [["but b"], [], ["but b"]]);
    a.emit("except", [room("not"), c.id], event, "only a");
    assert.deepEqual(await tally(), [["only a"], [], []]);
  });

  test("`all` and `local` reach the whole namespace and no other", async (t) => {
    const { members, event, tally } = await trio(t, client);
    const outsider = members[0].io.socket("/custom", {});
    await connected(outsider);
    const overheard = record(outsider, event);
    members[0].emit("all", event, "all");
    members[1].emit("local", event, "local");
    for (const seen of await tallyOf(tally, 2)) assert.deepEqual(seen.sort(), ["all", "local"]);
    assert.deepEqual(overheard, []);
  });

  test("a socket that left or disconnected hears nothing more", async (t) => {
    const { members, event, room, tally } = await trio(t, client);
    const [a, b, c] = members;
    await Promise.all(members.map((socket) => ask(socket, "join", room("r"))));
    await ask(b, "leave", room("r"));
    a.emit("in", room("r"), event, 1);
    assert.deepEqual(await tally(), [[1], [], [1]]);
    b.disconnect();
    b.connect();
    await connected(b);
    a.emit("in", room("r"), event, 2);
    assert.deepEqual(await tally(), [[2], [], [2]]);
    assert.notEqual(c.id, b.id);
  });

  test("binary broadcasts reach every member", async (t) => {
    const { members, event, room, tally } = await trio(t, client);
    await Promise.all(members.map((socket) => ask(socket, "join", room("r"))));
    members[0].emit("in", room("r"), event, Buffer.from([1, 2, 3]));
    for (const [blob] of await tally()) assert.deepEqual([...blob], [1, 2, 3]);
  });

  test("a thousand broadcasts of one sender keep their order at every member", async (t) => {
    const { members, event, room, tally } = await trio(t, client);
    await Promise.all(members.map((socket) => ask(socket, "join", room("r"))));
    for (let i = 0; i < 1000; i++) members[0].emit("in", room("r"), event, i);
    const expected = Array.from({ length: 1000 }, (_, i) => i);
    for (const seen of await tally()) assert.deepEqual(seen, expected);
  });
}

/** Events of other senders may arrive after the marker, so the tally is repeated until `count` came to each. */
async function tallyOf(tally, count) {
  const totals = await tally();
  for (let round = 0; round < 20 && totals.some((seen) => seen.length < count); round++) {
    (await tally()).forEach((more, i) => totals[i].push(...more));
  }
  return totals;
}
