// The library against the real gateway, with stock clients. SOCKEYE_BIN names the binary.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { io as connect } from "socket.io-client";
import { Server } from "@sockeye/server";
import { freePort } from "../../../conformance/ports.mjs";
import { until, way } from "./stage.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const BINARY = process.env.SOCKEYE_BIN ?? here("../../../target/debug/sockeye");
const [, KEY] = execFileSync(BINARY, ["api-key", "cook"], { encoding: "utf8" }).match(/(sockeye_\S+)/);
const digest = (await import("node:crypto")).createHash("sha256").update(KEY).digest("hex");
const children = [];
let addresses;

async function lines(child, stream, wanted) {
  children.push(child);
  for await (const line of createInterface({ input: child[stream] })) if (line.includes(wanted)) return line;
  throw new Error(`no line with ${wanted}`);
}

async function worker(address = addresses.workers, options = {}) {
  const child = spawn(process.execPath, [here("./kitchen.mjs"), address, KEY], { stdio: ["ignore", "pipe", "ignore"], ...options });
  await lines(child, "stdout", "ready");
  return child;
}

async function client(auth = {}) {
  const socket = connect(`http://${addresses.addresses.split(",")[0]}`, { transports: ["websocket"], auth, forceNew: true });
  socket.on("question", (done) => done(socket.id));
  await new Promise((resolve, reject) => {
    socket.once("hello", resolve);
    socket.once("connect_error", reject);
  });
  return socket;
}

before(async () => {
  const file = join(mkdtempSync(join(tmpdir(), "sockeye-")), "sockeye.toml");
  writeFileSync(
    file,
    `profile = "socket.io"\n[workers]\nlisten = "127.0.0.1:0"\n[log]\nformat = "json"\n[backends.kitchen]\nsocket_max = "1MiB"\nrehome_after = "2s"\n` +
      `api_keys = ["cook:${digest}"]\n[namespaces."/"]\nbackend = "kitchen"\n[namespaces."*"]\nbackend = "kitchen"\n`,
  );
  const args = ["--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
  const gateway = spawn(BINARY, args, { stdio: ["ignore", "ignore", "pipe"] });
  addresses = JSON.parse(await lines(gateway, "stderr", '"listening"'));
  gateway.stderr.resume();
});

after(() => children.forEach((child) => child.kill("SIGKILL")));

test("handlers, rooms, acks, middleware, fetchSockets and a worker killed with -9", async () => {
  const first = await worker();
  await assert.rejects(client({ bad: true }), (error) => error.message === "not you" && error.data.code === 7);
  const clients = await Promise.all(Array.from({ length: 6 }, () => client()));
  const lost = [];
  clients.forEach((socket) => socket.on("disconnect", (reason) => lost.push(reason)));
  const bytes = Buffer.from([1, 2, 3]);
  assert.deepEqual(await clients[0].emitWithAck("echo", { bytes }), { bytes });
  const news = clients.slice(1).map((socket) => once(socket, "news"));
  clients[0].emit("news", "soup");
  assert.deepEqual(await Promise.all(news), Array(5).fill(["soup"]));
  assert.deepEqual((await clients[0].emitWithAck("survey")).sort(), clients.map(({ id }) => id).sort());
  const who = await clients[0].emitWithAck("who");
  assert.deepEqual(who.map(([, data]) => data), Array(6).fill({ since: "start" }));

  // Under load, killed in the middle; no other worker is there yet.
  const answers = [];
  const say = (from, to) => {
    for (let n = from; n < to; n++) for (const socket of clients) answers.push(new Promise((done) => socket.emit("count", n, (m) => done([n, m]))));
  };
  say(0, 200);
  first.kill("SIGKILL");
  say(200, 400);
  const second = await worker();
  say(400, 600);
  for (const [said, answered] of await Promise.all(answers)) assert.equal(answered, said);
  assert.deepEqual((await clients[0].emitWithAck("who")).map(([, data]) => data), Array(6).fill({ since: "start" }));

  // A deploy: the old worker hands over and ends by itself.
  const third = await worker();
  second.kill("SIGTERM");
  const [code] = await once(second, "exit");
  assert.equal(code, 0);
  assert.deepEqual(await clients[1].emitWithAck("echo", "still"), "still");
  third.kill("SIGKILL");
  assert.deepEqual(lost, []);
  clients.forEach((socket) => socket.disconnect());
});

test("a link that is cut under load loses nothing and repeats nothing", async () => {
  const road = await way(addresses.workers);
  const only = await worker(road.address);
  const clients = await Promise.all(Array.from({ length: 4 }, () => client()));
  const lost = [];
  clients.forEach((socket) => socket.on("disconnect", (reason) => lost.push(reason)));
  const answers = [];
  for (let n = 0; n < 300; n++) {
    for (const socket of clients) {
      answers.push(new Promise((done) => socket.emit("count", n, (m, redelivered) => done([n, m, redelivered]))));
    }
    if (n % 100 === 50) road.cut();
    if (n % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  for (const [said, answered, redelivered] of await Promise.all(answers)) {
    assert.equal(answered, said);
    assert.equal(redelivered, false);
  }
  assert.deepEqual(lost, []);
  clients.forEach((socket) => socket.disconnect());
  only.kill("SIGKILL");
  road.close();
});

test("an event that a client names `error` does not end the worker", async () => {
  const only = await worker();
  const socket = await client();
  socket.emit("error", "boo");
  assert.equal(await socket.emitWithAck("echo", "still"), "still");
  assert.equal(only.exitCode, null);
  socket.disconnect();
  only.kill("SIGKILL");
});

test("what is said before the welcome arrives, and a query of a closed server rejects", async () => {
  const only = await worker();
  const socket = await client();
  const early = once(socket, "early");
  const io = new Server({ gateway: addresses.workers, key: KEY, backend: "kitchen" });
  io.emit("early", 1);
  assert.deepEqual(await early, [1]);
  assert.throws(() => io.emit("disconnect"), /reserved/);
  await io.close();
  await assert.rejects(io.fetchSockets(), /has ended/);
  socket.disconnect();
  only.kill("SIGKILL");
});

test("a worker that is refused says so, and its close() ends", async () => {
  const io = new Server({ gateway: addresses.workers, key: "sockeye_wrong", backend: "kitchen" });
  await assert.rejects(io.ready, /no backend of this name has this key; its entry goes into backends.NAME.api_keys/);
  await io.close();
});

/** A server in this process, and whatever the test says of it. */
function server(options = {}) {
  return new Server({ gateway: addresses.workers, key: KEY, backend: "kitchen", ...options });
}

function open(namespace = "/", options = {}) {
  const url = `http://${addresses.addresses.split(",")[0]}${namespace}`;
  return connect(url, { transports: ["websocket"], forceNew: true, reconnection: false, ...options });
}

test("namespaces by pattern, two of one session, and one that nobody serves", async () => {
  const io = server();
  const seen = [];
  io.of(/^\/dish-\d+$/).on("connection", (socket) => {
    seen.push(socket.client);
    socket.emit("named", socket.nsp.name);
    socket.on("disconnect", (reason) => seen.push(reason));
  });
  await io.ready;
  const first = open("/dish-1");
  assert.deepEqual(await once(first, "named"), ["/dish-1"]);
  const second = first.io.socket("/dish-2");
  second.connect();
  assert.deepEqual(await once(second, "named"), ["/dish-2"]);
  assert.equal(seen[0], seen[1], "one session is one client");
  const stranger = first.io.socket("/stranger");
  stranger.connect();
  const [error] = await once(stranger, "connect_error");
  assert.equal(error.message, "Invalid namespace");
  second.disconnect();
  await until(() => seen.length >= 3);
  assert.equal(seen[2], "client namespace disconnect");
  assert.equal(first.connected, true);
  first.disconnect();
  await io.close();
});

test("binary in events and acks, numbers as rooms, what a disconnecting socket was in", async () => {
  const io = server();
  const said = [];
  io.on("connection", (socket) => {
    // Clients of an earlier test may still be on their way out.
    if (socket.recovered) return;
    socket.join([7, "kitchen"]);
    socket.on("bytes", (value, done) => done(Buffer.isBuffer(value.deep[0]), value.deep[0], Buffer.alloc(0)));
    socket.on("disconnecting", (reason) => said.push([reason, [...socket.rooms].slice(1)]));
    io.to(7).emit("seven", Buffer.from("7"));
  });
  await io.ready;
  const socket = open();
  const [seven] = await once(socket, "seven");
  assert.equal(Buffer.from(seven).toString(), "7");
  const acked = await new Promise((done) => socket.emit("bytes", { deep: [Buffer.from([1, 2])] }, (...all) => done(all)));
  assert.deepEqual(acked.map((value) => (typeof value === "boolean" ? value : [...Buffer.from(value)])), [true, [1, 2], []]);
  socket.disconnect();
  await until(() => said.length > 0);
  assert.deepEqual(said[0][0], "client namespace disconnect");
  assert.deepEqual(said[0][1].map(String).sort(), ["7", "kitchen"]);
  await io.close();
});

test("a socket said to have left the room of its own id, where it still got events", async () => {
  const io = server();
  io.on("connection", (socket) => {
    socket.on("leave", async (done) => {
      await socket.leave(socket.id);
      io.in(socket.id).socketsLeave(socket.id);
      done([...socket.rooms]);
    });
    socket.on("own", () => io.in(socket.id).emit("own"));
  });
  await io.ready;
  const socket = open();
  assert.deepEqual(await socket.emitWithAck("leave"), [socket.id]);
  const own = once(socket, "own");
  socket.emit("own");
  await own;
  socket.disconnect();
  await io.close();
});

test("servers of a backend talk to each other, and count themselves", async () => {
  const [one, two] = [server(), server()];
  const heard = [];
  two.on("note", (...args) => heard.push(args));
  two.on("question", (x, answer) => answer({ two: x }));
  one.on("note", () => heard.push("its own"));
  await Promise.all([one.ready, two.ready]);
  // A worker that an earlier test killed counts for a moment.
  await until(async () => (await one.of("/").adapter.serverCount()) === 2);
  one.serverSideEmit("note", 1, Buffer.from([5]));
  assert.deepEqual(await one.serverSideEmitWithAck("question", 4), [{ two: 4 }]);
  assert.deepEqual(heard, [[1, Buffer.from([5])]]);
  await Promise.all([one.close(), two.close()]);
});

test("disconnect(true) ends the session, and `drop` of the connection lets the client come back", async () => {
  const io = server();
  const reasons = [];
  io.on("connection", (socket) => {
    // Clients of an earlier test may still be on their way out.
    if (socket.recovered) return;
    socket.on("kick", () => socket.disconnect(true));
    socket.on("drop", () => socket.conn.close());
    socket.on("disconnect", (reason) => reasons.push(reason));
    socket.emit("hello");
  });
  await io.ready;
  const socket = open("/", { reconnection: true, reconnectionDelay: 10 });
  await once(socket, "hello");
  socket.emit("drop");
  const [lost] = await once(socket, "disconnect");
  assert.match(lost, /transport close/);
  await once(socket, "hello");
  socket.emit("kick");
  const [kicked] = await once(socket, "disconnect");
  assert.equal(kicked, "io server disconnect");
  await until(() => reasons.length >= 2);
  assert.deepEqual(reasons, ["forced close", "server namespace disconnect"]);
  await io.close();
});

test("close() ended never while the gateway was out of reach", async () => {
  const io = server({ gateway: `127.0.0.1:${await freePort()}` });
  await io.close();
});

test("an event that ends worker after worker is refused, and the next worker lives", async () => {
  const crash = { env: { ...process.env, CRASH: "1" } };
  const doomed = await Promise.all(Array.from({ length: 4 }, () => worker(undefined, crash)));
  const socket = await client();
  const answer = new Promise((done) => socket.emit("deadly", done));
  await Promise.all(doomed.map((child) => child.exitCode ?? once(child, "exit")));
  const well = await worker();
  assert.deepEqual(await answer, { error: "The backend failed on this event" });
  assert.equal(await socket.emitWithAck("echo", "still"), "still");
  socket.disconnect();
  well.kill("SIGKILL");
});

test("what a worker cannot do throws, and says why", async () => {
  for (const name of ["parser", "adapter"]) assert.throws(() => server({ [name]: () => {} }), /with @sockeye\/server/);
  const io = server();
  assert.throws(() => io.attachApp(), /gateway/);
  await io.close();
});

test("an option that the gateway has another value for is an error that names its key", async () => {
  const io = server({ pingInterval: 1234 });
  await assert.rejects(io.ready, /`pingInterval` is 1234 here, and the gateway has 25000; leave it out, or set socketio.ping_interval/);
  await io.close();
  const same = server({ pingInterval: 25_000, path: "/socket.io" });
  await same.ready;
  await same.close();
});
