// What a returning client is told, packet by packet: the seven things that Socket.IO's own tests look at, by long-polling and without a
// client library. Where this gateway differs from Socket.IO's server, a test says so.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { Adapter } from "socket.io-adapter";
import { Server } from "@sockeye/server";
import { poll, post, stage, until } from "./stage.mjs";

let gateway, plain;
before(async () => ([gateway, plain] = await Promise.all([stage("", "", '[namespaces."/".recovery]\nlevel = "node"\n[server]\nshards = 2'), stage()])));
after(() => Promise.all([gateway, plain].map((one) => one.close())));

/** A session of its own, in the namespace by what it shows. */
class Caller {
  packets = [];

  static async open(url, shown) {
    const caller = new Caller();
    caller.url = url;
    const opened = await (await poll(url)).text();
    caller.session = JSON.parse(opened.slice(1)).sid;
    await caller.say(`40${shown === undefined ? "" : JSON.stringify(shown)}`);
    const answer = await caller.next();
    assert.equal(answer.slice(0, 2), "40", answer);
    Object.assign(caller, JSON.parse(answer.slice(2)));
    return caller;
  }

  async say(packet) {
    assert.equal(await post(this.url, this.session, packet), 200);
  }

  /** The next packet that is no ping. */
  async next() {
    while (this.packets.length === 0) {
      const came = (await (await poll(this.url, this.session)).text()).split("\x1e");
      this.packets.push(...came.filter((packet) => packet !== "2"));
    }
    return this.packets.shift();
  }

  async event() {
    const packet = await this.next();
    assert.equal(packet.slice(0, 2), "42", packet);
    return JSON.parse(packet.slice(2));
  }
}

/** A server whose sockets are greeted, and a client that was greeted and has gone. */
async function gone(t, options, prepare = () => {}) {
  const sockets = [];
  const io = await gateway.server(options, (io) => {
    prepare(io);
    io.on("connection", (socket) => {
      sockets.push(socket);
      socket.on("disconnect", () => (socket.left = true));
    });
  });
  t.after(() => io.close());
  const caller = await Caller.open(gateway.url);
  await until(() => sockets.length === 1);
  io.emit("hello");
  const [name, offset] = await caller.event();
  assert.equal(name, "hello");
  assert.equal(typeof offset, "string");
  await caller.say("1");
  await until(() => sockets[0].left);
  return { io, caller, sockets, shown: { pid: caller.pid, offset } };
}

/** Nobody is left whom the next test's server would take over. */
async function leaves(caller, sockets) {
  await caller.say("1");
  await until(() => sockets.every((socket) => socket.left));
}

test("missed events come behind the answer to CONNECT, in order, once, each with the offset to show next", async (t) => {
  const { io, caller, sockets, shown } = await gone(t, { connectionStateRecovery: {} }, (io) => io.on("connection", (socket) => socket.recovered || socket.join("den")));
  io.emit("to all", 1);
  io.to("den").emit("to its room", 2);
  sockets[0].emit("to itself", 3);
  io.to("elsewhere").emit("to others", 4);
  const back = await Caller.open(gateway.url, shown);
  assert.deepEqual([back.sid, back.pid], [caller.sid, caller.pid]);
  const events = [await back.event(), await back.event(), await back.event()];
  assert.deepEqual(events.map(([name, value]) => [name, value]), [["to all", 1], ["to its room", 2], ["to itself", 3]]);
  const offsets = events.map((event) => event.at(-1));
  assert.equal(new Set([shown.offset, ...offsets]).size, 4);
  // The offset of what was made up for counts: nothing of it comes a second time.
  await until(() => sockets.length === 2);
  await leaves(back, sockets);
  io.emit("later");
  const again = await Caller.open(gateway.url, { pid: shown.pid, offset: offsets.at(-1) });
  assert.equal(again.sid, caller.sid);
  assert.equal((await again.event())[0], "later");
  await until(() => sockets.length === 3);
  await leaves(again, sockets);
});

/** The gateway believed that the socket was there still, and told its shard alone, where it was no more. */
test("a socket that has just left gets what its handler says of it then, once it is back", async (t) => {
  const { io, caller, sockets, shown } = await gone(t, { connectionStateRecovery: {} }, (io) =>
    io.on("connection", (socket) => {
      socket.on("disconnect", () => {
        socket.emit("small", 1);
        socket.emit("large", "x".repeat(20_000));
        io.in(socket.id).socketsJoin("late room");
        io.to("late room").emit("to its room", 2);
      });
    }),
  );
  const back = await Caller.open(gateway.url, shown);
  assert.equal(back.sid, caller.sid);
  const events = [await back.event(), await back.event(), await back.event()];
  assert.deepEqual(events.map(([name]) => name), ["small", "large", "to its room"]);
  await until(() => sockets.length === 2);
  assert.ok(sockets[1].rooms.has("late room"));
  await leaves(back, sockets);
  io.in(caller.sid).disconnectSockets();
});

test("a server finds the id, the rooms and the data of the socket", async (t) => {
  const { caller, sockets, shown } = await gone(t, { connectionStateRecovery: {} }, (io) =>
    io.on("connection", (socket) => {
      if (socket.recovered) return;
      socket.join(["den", "hall"]);
      socket.data.name = "ann";
    }),
  );
  assert.equal(sockets[0].recovered, false);
  const back = await Caller.open(gateway.url, shown);
  await until(() => sockets.length === 2);
  const { id, recovered, rooms, data } = sockets[1];
  assert.deepEqual({ id, recovered, rooms: [...rooms].sort(), data }, { id: caller.sid, recovered: true, rooms: [caller.sid, "den", "hall"].sort(), data: { name: "ann" } });
  await leaves(back, sockets);
});

for (const [options, runs] of [[{}, false], [{ skipMiddlewares: true }, false], [{ skipMiddlewares: false }, true]]) {
  test(`middleware ${runs ? "judges" : "does not judge"} who comes back with connectionStateRecovery: ${JSON.stringify(options)}`, async (t) => {
    const { io, sockets, shown } = await gone(t, { connectionStateRecovery: options });
    io.use((socket, next) => {
      socket.data.judged = true;
      next();
    });
    const back = await Caller.open(gateway.url, shown);
    await until(() => sockets.length === 2);
    assert.equal(sockets[1].recovered, true);
    assert.equal(sockets[1].data.judged, runs ? true : undefined);
    await leaves(back, sockets);
  });
}

test("whoever shows a name that nobody has, or no name at all, is somebody new", async (t) => {
  const { io, caller, sockets, shown } = await gone(t, { connectionStateRecovery: {} });
  const strange = [{ pid: "foo", offset: "bar" }, { pid: shown.pid.replace(/.$/, (last) => (last === "A" ? "B" : "A")), offset: shown.offset }, { pid: 7, offset: 7 }, { pid: [shown.pid] }, { pid: "", offset: "" }, { pid: caller.sid, offset: shown.offset }];
  for (const [at, other] of strange.entries()) {
    const stranger = await Caller.open(gateway.url, other);
    assert.ok(stranger.sid !== caller.sid && stranger.sid !== other.pid, JSON.stringify(other));
    assert.ok(stranger.pid !== caller.pid && stranger.pid !== other.pid, JSON.stringify(other));
    await until(() => sockets.length === at + 2);
    assert.equal(sockets[at + 1].recovered, false);
    await leaves(stranger, sockets);
  }
  io.emit("still there");
  const back = await Caller.open(gateway.url, shown);
  assert.equal(back.sid, caller.sid);
  assert.equal((await back.event())[0], "still there");
  await until(() => sockets.length === strange.length + 2);
  await leaves(back, sockets);
});

/** The shard that gives events their order passed the join on, and sent the event at once to those shards alone that had members before. */
test("an event right after a join reaches the sockets of all shards", async (t) => {
  const io = await gateway.server({ connectionStateRecovery: {} });
  t.after(() => io.close());
  const clients = Array.from({ length: 8 }, () => gateway.open("/", { transports: ["websocket"] }));
  const heard = clients.map(() => []);
  clients.forEach((client, at) => client.on("said", (round) => heard[at].push(round)));
  await Promise.all(clients.map((client) => once(client, "connect")));
  await until(() => io.of("/").sockets.size === clients.length);
  const rounds = Array.from({ length: 50 }, (_, round) => round);
  for (const round of rounds) {
    for (const socket of io.of("/").sockets.values()) {
      if (round % 2) socket.join(`room ${round}`);
      else io.in(socket.id).socketsJoin(`room ${round}`);
    }
    io.to(`room ${round}`).emit("said", round);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  io.emit("said", "all");
  await until(() => heard.every((one) => one.includes("all")));
  for (const one of heard) assert.deepEqual(one, [...rounds, "all"]);
  clients.forEach((client) => client.disconnect());
  await until(() => io.of("/").sockets.size === 0);
});

test("without recovery nobody is told a name, and no event has an offset", async (t) => {
  const io = await plain.server({}, (io) => io.on("connection", (socket) => socket.emit("hello", socket.recovered)));
  t.after(() => io.close());
  for (const shown of [undefined, { pid: "foo", offset: "bar" }]) {
    const caller = await Caller.open(plain.url, shown);
    assert.equal(typeof caller.sid, "string");
    assert.equal(caller.pid, undefined);
    assert.deepEqual(await caller.event(), ["hello", false]);
    await caller.say("1");
  }
});

test("an adapter is taken whose methods nobody would call, and any other is refused", async (t) => {
  class Saves extends Adapter {
    persistSession() {
      assert.fail("nobody saves sessions here");
    }

    restoreSession() {
      assert.fail("nobody looks for sessions here");
    }
  }
  class Sends extends Saves {
    broadcast() {}
  }
  const own = { gateway: plain.workers, key: plain.key, backend: "kitchen" };
  const refused = (options, error) => assert.throws(() => new Server({ ...own, ...options }), (thrown) => thrown.code === "SOCKEYE_UNSUPPORTED" && error.test(thrown.message));
  refused({ adapter: Sends }, /the option `adapter` with a `broadcast` of its own with @sockeye\/server: the gateway is the cluster: leave it out/);
  refused({ adapter: () => {} }, /the option `adapter` with/);
  refused({ adapter: class {} }, /the option `adapter` with/);
  refused({ adapter: Saves, connectionStateRecovery: {} }, /with a `persistSession` of its own/);
  const io = await plain.server({ adapter: Saves });
  t.after(() => io.close());
  assert.throws(() => io.attach({ listen() {} }, { connectionStateRecovery: {} }), /with a `persistSession` of its own/);
  const caller = await Caller.open(plain.url, { pid: "foo", offset: "bar" });
  assert.equal(caller.pid, undefined);
  await caller.say("1");
  const other = await plain.server({ adapter: Adapter });
  await other.close();
});

/** In a thread of its own, so that it works while the server's stands still: it ends a session and brings the next one to the same socket. */
const RETURNER = `
const { parentPort, workerData: { stage, url, session, shown, busy } } = require("node:worker_threads");
import(stage).then(async ({ poll, post }) => {
  await post(url, session, "1");
  const next = JSON.parse((await (await poll(url)).text()).slice(1)).sid;
  await post(url, next, "40" + JSON.stringify(shown));
  // What the gateway tells the server of both is in one piece there.
  await new Promise((resolve) => setTimeout(resolve, 200));
  parentPort.postMessage(next);
  Atomics.store(busy, 0, 1);
  Atomics.notify(busy, 0);
});`;

test("a client that comes back while its server is busy is there after the end of its connection before", async (t) => {
  const sockets = [];
  const io = await gateway.server({ connectionStateRecovery: {} }, (io) =>
    io.on("connection", (socket) => {
      sockets.push(socket);
      socket.on("ask", (answer) => answer("here"));
      socket.on("disconnect", () => (socket.left = true));
    }),
  );
  t.after(() => io.close());
  const caller = await Caller.open(gateway.url);
  await until(() => sockets.length === 1);
  io.emit("hello");
  const [, offset] = await caller.event();
  const busy = new Int32Array(new SharedArrayBuffer(4));
  const stage = new URL("./stage.mjs", import.meta.url).href;
  const workerData = { stage, url: gateway.url, session: caller.session, shown: { pid: caller.pid, offset }, busy };
  const thread = new Worker(RETURNER, { eval: true, workerData });
  assert.equal(Atomics.wait(busy, 0, 0, 20_000), "ok");
  const [session] = await once(thread, "message");
  const back = Object.assign(new Caller(), { url: gateway.url, session });
  const answer = await back.next();
  assert.equal(JSON.parse(answer.slice(2)).sid, caller.sid, answer);
  await until(() => sockets.length === 2);
  assert.deepEqual(sockets.map(({ left }) => left), [true, undefined]);
  assert.equal(io.sockets.sockets.get(caller.sid), sockets[1]);
  await back.say('427["ask"]');
  assert.equal(await back.next(), '437["here"]');
  await back.say("1");
  await until(() => sockets[1].left);
  assert.equal(io.sockets.sockets.size, 0);
});
