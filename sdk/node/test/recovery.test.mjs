// Clients that lose their connection and come back, with a worker behind the gateway, on two shards.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { io as connect } from "socket.io-client";
import { freeze, stage, until, way } from "./stage.mjs";

let gateway;

before(async () => {
  gateway = await stage("", 'recovery = { level = "node" }', '[namespaces."*".recovery]\nlevel = "node"\n[server]\nshards = 2');
});

after(() => gateway.close());

/** A client on a way that can be cut. */
async function client(t, namespace) {
  const road = await way(new URL(gateway.url).host);
  const socket = connect(`http://${road.address}${namespace}`, { transports: ["websocket"], forceNew: true, reconnectionDelay: 100, reconnectionDelayMax: 100 });
  t.after(() => (socket.disconnect(), road.close()));
  await once(socket, "connect");
  return { socket, road };
}

/** Cuts it, does something meanwhile, and waits until it is there again. */
async function away({ socket, road }, meanwhile) {
  const back = once(socket, "connect");
  road.lead(undefined);
  await once(socket, "disconnect");
  await meanwhile();
  road.lead(new URL(gateway.url).host);
  await back;
}

test("a worker finds the socket with its rooms and its data, and what it said meanwhile arrives", async (t) => {
  const seen = [];
  const io = await gateway.server({ connectionStateRecovery: {} }, (io) => {
    io.of("/room").use((socket, next) => {
      seen.push("middleware");
      next();
    });
    io.of("/room").on("connection", (socket) => {
      seen.push(socket.recovered ? "recovered" : "new");
      if (!socket.recovered) {
        socket.data.name = "ann";
        socket.join("den");
      }
      socket.on("where", (done) => done({ rooms: [...socket.rooms].sort(), data: socket.data, id: socket.id }));
      socket.on("disconnect", () => seen.push("gone"));
    });
  });
  t.after(() => io.close());
  // On one of the two shards it comes back to the other for sure.
  for (let round = 0; round < 6; round++) {
    seen.length = 0;
    const place = await client(t, "/room");
    const { socket } = place;
    const { id } = socket;
    const said = [];
    socket.on("said", (n) => said.push(n));
    await socket.emitWithAck("where");
    await away(place, async () => {
      await until(() => seen.includes("gone"));
      io.of("/room").to("den").emit("said", 1);
      io.of("/room").to(id).emit("said", 2);
      io.of("/room").emit("said", 3);
    });
    assert.ok(socket.recovered, `round ${round}`);
    assert.equal(socket.id, id);
    assert.deepEqual(await socket.emitWithAck("where"), { rooms: [id, "den"].sort(), data: { name: "ann" }, id });
    await until(() => said.length >= 3);
    assert.deepEqual(said, [1, 2, 3]);
    assert.deepEqual(seen, ["middleware", "new", "gone", "recovered"]);
    // It hears its worker directly, by its room and by its id.
    const [found] = await io.of("/room").in(id).fetchSockets();
    assert.deepEqual(found.data, { name: "ann" });
    found.emit("said", 4);
    io.of("/room").to("den").emit("said", 5);
    await until(() => said.length >= 5);
    assert.deepEqual(said, [1, 2, 3, 4, 5]);
    socket.disconnect();
    await until(() => seen.length === 5);
  }
});

/** Socket.IO's server leaves all rooms behind the end: for the gateway, that came after the socket was kept. */
test("a handler that closed the connection took its client's rooms from it", async (t) => {
  const io = await gateway.server({ connectionStateRecovery: {} }, (io) => {
    io.of("/closing").on("connection", (socket) => {
      if (!socket.recovered) socket.join(["den", "attic"]);
      socket.on("drop", () => socket.conn.close());
      socket.on("disconnecting", () => socket.leave("attic"));
      socket.on("where", (done) => done([...socket.rooms]));
    });
  });
  t.after(() => io.close());
  const { socket } = await client(t, "/closing");
  const said = [];
  socket.on("said", (n) => said.push(n));
  io.of("/closing").emit("said", 0);
  await until(() => said.length === 1);
  const back = once(socket, "connect");
  socket.once("disconnect", () => io.of("/closing").to("den").emit("said", 1));
  socket.emit("drop");
  await back;
  assert.ok(socket.recovered);
  assert.deepEqual(await socket.emitWithAck("where"), [socket.id, "den"]);
  io.of("/closing").to("den").emit("said", 2);
  await until(() => said.includes(2));
  assert.deepEqual(said, [0, 1, 2]);
  // What was left before the end stays left.
  assert.equal((await io.of("/closing").in("attic").fetchSockets()).length, 0);
});

const KITCHEN = fileURLToPath(new URL("kitchen.mjs", import.meta.url));

/** A worker process. */
async function kitchen(t) {
  const child = spawn(process.execPath, [KITCHEN, gateway.workers, gateway.key], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  for await (const line of createInterface({ input: child.stdout })) if (line === "ready") break;
  child.stdout.resume();
  return child;
}

test("a worker that is killed while its client is away leaves the socket to the next", async (t) => {
  const doomed = await kitchen(t);
  const place = await client(t, "/");
  const { socket } = place;
  const { id } = socket;
  const news = [];
  socket.on("news", (n) => news.push(n));
  await socket.emitWithAck("echo", 0);
  await away(place, async () => {
    doomed.kill("SIGKILL");
    await once(doomed, "exit");
    await kitchen(t);
    const other = gateway.open("/");
    t.after(() => other.disconnect());
    await once(other, "connect");
    other.emit("news", 7);
    await other.emitWithAck("echo", 0);
  });
  assert.ok(socket.recovered);
  assert.equal(socket.id, id);
  await until(() => news.length > 0);
  const who = await socket.emitWithAck("who");
  assert.deepEqual(
    who.find(([one]) => one === id),
    [id, { since: "start" }],
  );
  assert.deepEqual(news, [7]);
});

/** Events of clients that the gateway has taken in for its workers. */
async function events() {
  const text = await (await fetch(`${gateway.admin}/metrics`, { headers: { authorization: `Bearer ${gateway.key}` } })).text();
  return Number(/^sockeye_backend_events_total\S* (\d+)$/m.exec(text)?.[1]);
}

/** The next worker took what was left of the old connection for news of the new one. */
test("a worker that hears nothing of an end and dies leaves the end and the return to the next, in this order", async (t) => {
  const doomed = await kitchen(t);
  const place = await client(t, "/");
  const { socket, road } = place;
  const { id } = socket;
  await socket.emitWithAck("echo", 0);
  const seen = [];
  const io = await gateway.server({ connectionStateRecovery: {} }, (io) => {
    io.on("connection", (socket) => {
      // Sockets of tests before may still be on their way to a worker.
      if (socket.id !== id) return;
      seen.push(socket.recovered ? "back" : "in");
      socket.on("note", (n) => seen.push(n));
      socket.on("echo", (n, done) => done(n));
      socket.on("disconnect", () => seen.push("gone"));
    });
  });
  t.after(() => io.close());
  freeze(doomed);
  const before = await events();
  socket.emit("note", 1);
  await until(async () => (await events()) > before);
  const back = once(socket, "connect");
  road.lead(undefined);
  await once(socket, "disconnect");
  road.lead(new URL(gateway.url).host);
  // It asks while nobody has heard of its end.
  await once(socket.io, "reconnect");
  await new Promise((resolve) => setTimeout(resolve, 300));
  doomed.kill("SIGKILL");
  await back;
  assert.equal(socket.id, id);
  assert.equal(await socket.emitWithAck("echo", 7), 7);
  assert.deepEqual(seen, ["back", 1, "gone", "back"]);
});

test("middleware decides again where the option says so, and may refuse", async (t) => {
  let open = true;
  const io = await gateway.server({ connectionStateRecovery: { skipMiddlewares: false } }, (io) => {
    io.of("/strict").use((socket, next) => next(open ? undefined : new Error("closed")));
    io.of("/strict").on("connection", () => {});
  });
  t.after(() => io.close());
  const place = await client(t, "/strict");
  const errors = [];
  place.socket.on("connect_error", ({ message }) => errors.push(message));
  place.road.lead(undefined);
  await once(place.socket, "disconnect");
  open = false;
  place.road.lead(new URL(gateway.url).host);
  await until(() => errors.includes("closed"));
  assert.equal(place.socket.connected, false);
});
