// A program without a server speaks by @socket.io/redis-emitter, while one server of this library works at two gateways.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { Emitter } from "@socket.io/redis-emitter";
import { createClient } from "redis";
import { redis, stage, until } from "./stage.mjs";

let database;
let gateways;
let publisher;
let emitter;
let io;
const told = [];

before(async () => {
  database = await redis();
  const cluster = `[cluster]\nadapter = "redis"\nurls = ["${database.url}"]\nsecret = "of this test alone"\n[compat]\nenabled = true\n`;
  gateways = await Promise.all([1, 2].map(() => stage("", "", cluster)));
  publisher = createClient({ url: database.url });
  await publisher.connect();
  emitter = new Emitter(publisher);
  const [near, far] = gateways;
  io = await near.server({ gateway: [near.workers, far.workers] }, (io) => {
    io.on("tell", (...all) => told.push(all));
    io.on("connection", (socket) => {
      socket.on("rooms", (done) => done([...socket.rooms].filter((room) => room !== socket.id).sort()));
      socket.on("disconnect", (reason) => told.push([socket.id, reason]));
    });
  });
});

after(async () => {
  await publisher?.close();
  await Promise.all((gateways ?? []).map((gateway) => gateway.close()));
  database?.child.kill("SIGKILL");
});

/** What clients heard by this name. */
function ears(clients, name) {
  return clients.map((client) => {
    const heard = [];
    client.on(name, (...all) => heard.push(all));
    return heard;
  });
}

test("an emitter's words reach the clients of both gateways once, their server, and its sockets", async () => {
  const clients = [...gateways, ...gateways].map(({ open }) => open("/", { transports: ["websocket"] }));
  await Promise.all(clients.map((client) => once(client, "connect")));
  const rooms = () => Promise.all(clients.map((client) => client.emitWithAck("rooms")));
  // A program may speak before gateways have heard of each other and of it: the first word is said until all have heard it.
  const gate = ears(clients, "gate");
  await until(() => {
    emitter.emit("gate");
    return gate.every(({ length }) => length > 0);
  });

  const ids = clients.map(({ id }) => id);
  const [first, second, third] = ids;
  for (const id of [first, second]) emitter.in(id).socketsJoin(["soup", "bar"]);
  await until(() => [0, 1].every((at) => io.of("/").adapter.rooms.get("soup")?.has(ids[at])));
  const soup = ears(clients, "soup");
  emitter.to("soup").emit("soup", 1, { hot: true }, Buffer.from([1, 2]));
  emitter.to("soup").except(first).emit("soup", 2);
  // The server, in between.
  io.to("soup").emit("soup", 3);
  emitter.of("/").to(third).emit("soup", 4);
  emitter.emit("soup", "all");
  const counts = [3, 4, 2, 1];
  await until(() => soup.every(({ length }, at) => length >= counts[at]));
  const said = soup.map((heard) => heard.map(([what]) => what));
  assert.deepEqual(said.map((all) => all.filter((what) => what !== 3)), [[1, "all"], [1, 2, "all"], [4, "all"], ["all"]]);
  assert.deepEqual(said.map((all) => all.filter((what) => what === 3).length), [1, 1, 0, 0]);
  const [, object, bytes] = soup[0].find(([what]) => what === 1);
  assert.deepEqual([object, [...bytes]], [{ hot: true }, [1, 2]]);
  assert.deepEqual(await rooms(), [["bar", "soup"], ["bar", "soup"], [], []]);
  assert.deepEqual((await io.in("soup").fetchSockets()).map(({ id }) => id).sort(), [first, second].sort());

  emitter.in("bar").socketsLeave("soup");
  await until(() => !io.of("/").adapter.rooms.has("soup"));
  assert.deepEqual(await rooms(), [["bar"], ["bar"], [], []]);

  emitter.serverSideEmit("tell", "hello", { n: 1 });
  await until(() => told.length > 0);
  emitter.in("bar").disconnectSockets(true);
  await Promise.all(clients.slice(0, 2).map((client) => once(client, "disconnect")));
  await until(() => told.length >= 3);
  assert.deepEqual(told[0], ["hello", { n: 1 }]);
  assert.deepEqual(told.slice(1).map(([id]) => id).sort(), [first, second].sort());
  assert.deepEqual(clients.map(({ connected }) => connected), [false, false, true, true]);
  // The others' answers come behind all that was said: nothing came twice.
  for (const client of clients.slice(2)) assert.deepEqual(await client.emitWithAck("rooms"), []);
  assert.deepEqual(soup.map(({ length }) => length), counts);
  assert.equal(told.length, 3);
});
