// Disconnecting: reasons at the client, what closes with it, and who comes back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, connected, once, upgraded } from "../peer/stock.js";
import { eventually, sleep } from "../peer/patience.js";

const RECONNECTING = { reconnection: true, reconnectionDelay: 20, reconnectionDelayMax: 40 };

async function isThere(observer, id) {
  const [, found] = await ask(observer, "fetch", null);
  return found.some((socket) => socket.id === id);
}

export function disconnecting(client) {
  test("kick: `io server disconnect`, no reconnection, the other namespace goes on", async (t) => {
    const lab = await client.connect(t, "/lab", RECONNECTING);
    const main = lab.io.socket("/", {});
    await connected(main);
    const gone = once(lab, "disconnect");
    lab.emit("kick");
    assert.equal((await gone)[0], "io server disconnect");
    assert.deepEqual(await ask(main, "message-with-ack", 1), [1]);
    await sleep(100);
    assert.equal(lab.connected, false);
    assert.equal(lab.active, false);
    lab.connect();
    await connected(lab);
    assert.deepEqual(await ask(lab, "echo", "back by hand"), ["back by hand"]);
  });

  test("kick-close: every namespace gets `io server disconnect` and the connection closes", async (t) => {
    const lab = await client.connect(t, "/lab", RECONNECTING);
    const main = lab.io.socket("/", {});
    await connected(main);
    const engineClosed = new Promise((resolve) => lab.io.engine.once("close", resolve));
    const reasons = Promise.all([once(lab, "disconnect"), once(main, "disconnect")]);
    lab.emit("kick-close");
    assert.deepEqual((await reasons).map(([reason]) => reason), ["io server disconnect", "io server disconnect"]);
    await engineClosed;
    await sleep(100);
    assert.equal(lab.connected || main.connected, false);
  });

  test("drop: `transport close`, then the client comes back by itself with a new id", async (t) => {
    const socket = await client.connect(t, "/lab", RECONNECTING);
    const { id } = socket;
    const gone = once(socket, "disconnect");
    const back = connected(socket);
    socket.emit("drop");
    assert.match((await gone)[0], client.lost);
    await back;
    assert.notEqual(socket.id, id);
    assert.ok(!socket.recovered);
    assert.deepEqual(await ask(socket, "echo", "again"), ["again"]);
  });

  test("a close by the server at any moment of the upgrade is noticed at once", async (t) => {
    // A client that took a kick for a lost connection would come back.
    const ends = [["drop", client.lost], ["kick-close", /^io server disconnect$/]];
    for (let round = 0; round < 10; round++) {
      await Promise.all(Array.from({ length: 6 }, async (_, i) => {
        const socket = await client.connect(t);
        if (i > 1) await sleep(i - 2);
        const [how, reason] = ends[i % 2];
        // The reason tells it from a client that only missed its heartbeat: no time is judged.
        const gone = once(socket, "disconnect", 20_000);
        socket.emit(how);
        assert.match((await gone)[0], reason);
      }));
    }
  });

  test("events buffered while away arrive after the reconnection, in order", async (t) => {
    const socket = await client.connect(t, "/lab", RECONNECTING);
    const seen = [];
    socket.on("echo", (i) => seen.push(i));
    const gone = once(socket, "disconnect");
    socket.emit("drop");
    await gone;
    for (let i = 0; i < 20; i++) socket.emit("echo", i);
    await eventually(() => seen.length === 20, "20 buffered echoes came");
    assert.deepEqual(seen, Array.from({ length: 20 }, (_, i) => i));
  });

  test("the client's disconnect is seen by the server and needs no answer", async (t) => {
    const observer = await client.connect(t);
    const socket = await client.connect(t);
    const { id } = socket;
    assert.ok(await isThere(observer, id));
    const gone = once(socket, "disconnect");
    socket.disconnect();
    assert.equal((await gone)[0], "io client disconnect");
    await eventually(async () => !(await isThere(observer, id)), "the server forgot the socket");
  });

  test("leaving one namespace keeps the other", async (t) => {
    const observer = await client.connect(t);
    const main = await client.connect(t, "/");
    const lab = main.io.socket("/lab", {});
    await connected(lab);
    const { id } = lab;
    lab.disconnect();
    await eventually(async () => !(await isThere(observer, id)), "the server forgot the socket");
    assert.deepEqual(await ask(main, "message-with-ack", "on"), ["on"]);
    lab.connect();
    await connected(lab);
    assert.notEqual(lab.id, id);
  });

  test("a client whose network vanishes is forgotten", async (t) => {
    const observer = await client.connect(t);
    const socket = await client.connect(t);
    if (client.upgrades) await upgraded(socket);
    const { id } = socket;
    const { engine } = socket.io;
    // No close packet, no pong: the transport goes deaf and dumb.
    engine.transport.removeAllListeners();
    engine.transport.write = () => {};
    engine.transport.send = () => {};
    await eventually(async () => !(await isThere(observer, id)), "the server forgot the socket", 10_000);
  });

  test("the whole connection can be closed and opened again by the application", async (t) => {
    const socket = await client.connect(t);
    for (let round = 0; round < 3; round++) {
      socket.disconnect();
      socket.connect();
      await connected(socket);
      assert.deepEqual(await ask(socket, "echo", round), [round]);
    }
  });
}
