// Operations on many sockets: collecting answers, fetching, joining, leaving, kicking.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, once } from "../peer/stock.js";
import { eventually } from "../peer/patience.js";

async function pair(t, client) {
  const [a, b] = await Promise.all(["ann", "bob"].map((user) => client.connect(t, "/lab", { auth: { user } })));
  const room = `pair-${a.id}`;
  await Promise.all([a, b].map((socket) => ask(socket, "join", room)));
  return { a, b, room };
}

/** Cluster-wide operations have no answer, so their effect is awaited. */
const rooms = async (socket, selector) => {
  const [error, found] = await ask(socket, "fetch", selector);
  assert.equal(error, null);
  return found;
};

export function operations(client) {
  test("`collect` gathers an answer of every member", async (t) => {
    const { a, b, room } = await pair(t, client);
    for (const [name, socket] of [["a", a], ["b", b]]) socket.on("poll", (x, answer) => answer(`${name}${x}`));
    const [error, answers] = await ask(a, "collect", room, 3000, "poll", 7);
    assert.equal(error, null);
    assert.deepEqual(answers.sort(), ["a7", "b7"]);
  });

  test("`collect` with binary questions and answers", async (t) => {
    const { a, b, room } = await pair(t, client);
    for (const socket of [a, b]) socket.on("poll", (blob, answer) => answer({ blob: Buffer.concat([blob, blob]) }));
    const [error, answers] = await ask(a, "collect", room, 3000, "poll", Buffer.from([5]));
    assert.equal(error, null);
    assert.deepEqual(answers.map(({ blob }) => [...blob]), [[5, 5], [5, 5]]);
  });

  test("`collect` gives up at its timeout with the answers it has", async (t) => {
    const { a, b, room } = await pair(t, client);
    a.on("poll", (answer) => answer("only a"));
    b.on("poll", () => {});
    let answers = [];
    // A busy machine may keep an answer for longer than the first time.
    for (let ms = 300; answers.length === 0 && ms < 10_000; ms *= 3) {
      const [error, some] = await ask(a, "collect", room, ms, "poll");
      assert.equal(error, "operation has timed out");
      answers = some;
    }
    assert.deepEqual(answers, ["only a"]);
  });

  test("`collect` of an empty room is complete at once", async (t) => {
    const { a } = await pair(t, client);
    assert.deepEqual(await ask(a, "collect", `nobody-${a.id}`, 3000, "poll"), [null, []]);
  });

  test("`fetch` tells id, rooms and data of the sockets in a room", async (t) => {
    const { a, b, room } = await pair(t, client);
    const found = await rooms(a, room);
    assert.equal(found.length, 2);
    for (const [socket, user] of [[a, "ann"], [b, "bob"]]) {
      const entry = found.find(({ id }) => id === socket.id);
      assert.deepEqual(entry.rooms.sort(), [socket.id, room].sort());
      assert.deepEqual(entry.data, { user });
    }
    assert.deepEqual(await rooms(a, `nobody-${a.id}`), []);
    const everybody = (await rooms(a, null)).map(({ id }) => id);
    assert.ok(everybody.includes(a.id) && everybody.includes(b.id));
  });

  test("`sockets-join` and `sockets-leave` move the selected sockets", async (t) => {
    const { a, b, room } = await pair(t, client);
    const target = `target-${a.id}`;
    a.emit("sockets-join", room, target);
    await eventually(async () => (await rooms(a, target)).length === 2, "both joined");
    a.emit("sockets-leave", b.id, target);
    await eventually(async () => (await rooms(a, target)).length === 1, "one left");
    assert.deepEqual((await rooms(a, target)).map(({ id }) => id), [a.id]);
  });

  test("`sockets-kick` disconnects the selected sockets", async (t) => {
    const { a, b, room } = await pair(t, client);
    await ask(b, "join", `out-${a.id}`);
    const gone = once(b, "disconnect");
    a.emit("sockets-kick", `out-${a.id}`, false);
    assert.equal((await gone)[0], "io server disconnect");
    await eventually(async () => (await rooms(a, room)).length === 1, "one is left in the room");
  });

  test("`sockets-kick` with close ends the connection too", async (t) => {
    const { a, b } = await pair(t, client);
    const closed = new Promise((resolve) => b.io.engine.once("close", resolve));
    const gone = once(b, "disconnect");
    a.emit("sockets-kick", b.id, true);
    assert.equal((await gone)[0], "io server disconnect");
    await closed;
  });

  test("a server alone counts one and has nobody else to ask", async (t) => {
    const socket = await client.connect(t);
    assert.deepEqual(await ask(socket, "server-count"), [1]);
    assert.deepEqual(await ask(socket, "server-side-ask", "ping-nodes", 1), [null, []]);
    socket.emit("server-side-emit", "ping-nodes", 1);
    assert.deepEqual(await ask(socket, "echo", "alive"), ["alive"]);
  });
}
