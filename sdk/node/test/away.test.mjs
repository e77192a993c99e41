// A gateway that is away, gone or begins anew: every caller that waits gets an answer or an error. Servers that close and come again.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createConnection, createServer } from "node:net";
import { after, test } from "node:test";
import { stage, until } from "./stage.mjs";

const stages = [];
const begin = async (...settings) => {
  const here = await stage(...settings);
  stages.push(here);
  return here;
};
after(() => Promise.all(stages.map((here) => here.close())));

/** A way to a gateway, and later perhaps to another one. */
async function way(first) {
  const ends = new Set();
  let goal = first;
  const server = createServer((near) => {
    if (goal === undefined) return near.destroy();
    const [host, port] = goal.split(":");
    const far = createConnection(Number(port), host);
    for (const [end, other] of [[near, far], [far, near]]) {
      ends.add(end);
      end.pipe(other);
      end.on("error", () => other.destroy());
      end.on("close", () => ends.delete(end) && other.destroy());
    }
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const lead = (to) => {
    goal = to;
    ends.forEach((end) => end.destroy());
  };
  return { address: `127.0.0.1:${server.address().port}`, lead, close: () => (server.close(), lead(undefined)) };
}

/** A server that is attached by a way, with one client. */
async function attached() {
  const here = await begin();
  const road = await way(here.workers);
  const io = await here.server({ gateway: road.address });
  const socket = new Promise((resolve) => io.once("connection", resolve));
  const client = here.open("/", { transports: ["websocket"] });
  return { here, road, io, client, socket: await socket };
}

test("what asked a gateway that is away waited for ever", async () => {
  const { road, io, client, socket } = await attached();
  road.lead(undefined);
  const began = Date.now();
  const away = /the gateway did not answer in time: the link to it is down/;
  await Promise.all([
    assert.rejects(io.fetchSockets(), away),
    assert.rejects(io.in("room").timeout(300).fetchSockets(), away),
    assert.rejects(io.serverSideEmitWithAck("hello"), (error) => away.test(error.message) && error.responses.length === 0),
    assert.rejects(io.of("/").adapter.serverCount(), away),
    assert.rejects(socket.timeout(300).emitWithAck("question"), /timed out/),
    assert.rejects(io.timeout(300).emitWithAck("question"), /timed out/),
  ]);
  assert.ok(Date.now() - began >= 5_000, "the gateway had its time");
  client.disconnect();
  await io.close();
  road.close();
});

test("emitWithAck waited for ever for a client that was gone, and for a gateway that began anew", async () => {
  const { road, io, client, socket } = await attached();
  const asked = once(client, "question");
  const answer = socket.emitWithAck("question");
  await asked;
  client.disconnect();
  await assert.rejects(answer, /the client did not answer, or has gone/);
  await until(() => !socket.connected);
  await assert.rejects(socket.emitWithAck("question"), /cannot ask "question": the socket has been disconnected/);

  const other = await begin();
  road.lead(other.workers);
  const second = new Promise((resolve) => io.once("connection", resolve));
  const guest = other.open("/", { transports: ["websocket"] });
  const heard = once(guest, "question");
  const later = (await second).emitWithAck("question");
  await heard;
  const third = await begin();
  road.lead(third.workers);
  await assert.rejects(later, /the link to the gateway ended before the answer came/);
  guest.disconnect();
  await io.close();
  road.close();
});

test("rooms and data that waited for a gateway had no bound", async () => {
  const { road, io, client, socket } = await attached();
  road.lead(undefined);
  const long = "x".repeat(4 << 20);
  const warned = once(process, "warning");
  for (let n = 0; n < 20; n++) socket.join(`${n}${long}`);
  const [{ message }] = await warned;
  assert.match(message, /64 MiB wait for a gateway that does not take them; events, joins and leaves are dropped/);
  assert.equal(io.dropped, 5);
  // It is in those rooms that the gateway will hear of.
  assert.equal(socket.rooms.size, 1 + 15);
  io.socketsJoin(long);
  io.in("0").socketsLeave(long);
  assert.equal(io.dropped, 7);
  assert.equal(socket.rooms.has(long), false);
  client.disconnect();
  await io.close();
  road.close();
});

test("a server that had closed could not attach again", async () => {
  const here = await begin();
  const io = await here.server({}, (io) => {
    io.on("connection", (socket) => {
      socket.join("kitchen");
      socket.on("state", (done) => done(socket.recovered, socket.data, [...socket.rooms].length));
      socket.on("note", (text, done) => done((socket.data.note = text)));
    });
  });
  const client = here.open("/", { transports: ["websocket"] });
  const lost = [];
  client.on("disconnect", (reason) => lost.push(reason));
  assert.equal(await client.emitWithAck("note", "soup"), "soup");
  for (const open of ["listen", "attach"]) {
    const closed = io.close();
    // Also before it has closed.
    if (open === "listen") await closed;
    io[open]();
    await closed;
    await io.ready;
    const answer = await new Promise((resolve) => client.emit("state", (...all) => resolve(all)));
    assert.deepEqual(answer, [true, { note: "soup" }, 2]);
    assert.equal(io.engine.clientsCount, 1);
    assert.deepEqual((await io.in("kitchen").fetchSockets()).map(({ id }) => id), [client.id]);
  }
  assert.deepEqual(lost, []);
  client.disconnect();
});

test("a server that is closed again while it closes stays away", async () => {
  const here = await begin();
  const io = await here.server();
  const first = io.close();
  io.listen();
  await Promise.all([first, io.close()]);
  await assert.rejects(io.ready, /closed again before it had attached/);
  await assert.rejects(io.fetchSockets(), /has ended/);
});

test("options given to attach() were not compared with the gateway's", async () => {
  const here = await begin();
  const io = await here.server({ pingTimeout: 20_000 });
  assert.throws(() => io.attach(3000, { pingInterval: 24_000 }), /`pingInterval` is 24000 here, and the gateway has 25000/);
  assert.throws(() => io.attach(3000, { adapter: () => {} }), /with @sockeye\/server/);
  assert.equal(io.engine.opts.pingTimeout, 20_000);
});

test("connection_error told nothing of requests that this server refuses", async () => {
  const here = await begin("openings = true");
  const told = [];
  const io = await here.server({ allowRequest: (_, done) => done("not you", false) }, ({ engine }) => {
    engine.use((request, _, next) => next(request.headers["x-stop"] && new Error("stop")));
    engine.on("connection_error", ({ req, code, message, context }) => told.push([req.url.slice(0, 12), code, message, context]));
  });
  for (const headers of [{}, { "x-stop": "1" }]) await fetch(`${here.url}/socket.io/?EIO=4&transport=polling`, { headers });
  assert.deepEqual(told, [
    ["/socket.io/?", 4, "Forbidden", { message: "not you" }],
    ["/socket.io/?", 3, "Bad request", { name: "MIDDLEWARE_FAILURE", message: "stop" }],
  ]);
});
