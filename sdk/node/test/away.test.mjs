// A gateway that is away, gone or begins anew: every caller that waits gets an answer or an error. Servers that close and come again.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { stage, until, way } from "./stage.mjs";

const stages = [];
const begin = async (...settings) => {
  const here = await stage(...settings);
  stages.push(here);
  return here;
};
after(() => Promise.all(stages.map((here) => here.close())));

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

/** `socket.data` that is written as nothing left half a message behind, and the gateway ended the link for good. */
test("socket.data that cannot be written ended the link", async () => {
  const here = await begin();
  await here.server({}, (io) => {
    io.on("connection", (socket) =>
      socket.on("save", (done) => {
        socket.data = { toJSON: () => undefined };
        done();
      }),
    );
  });
  const client = here.open("/", { transports: ["websocket"] });
  const lost = [];
  client.on("disconnect", (reason) => lost.push(reason));
  for (let n = 0; n < 3; n++) await client.emitWithAck("save");
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

/** What middleware makes of a socket that came is not known yet, and it is to go again: nobody else got it while its worker waited for that. */
test("a socket whose middleware never answered held up io.close()", async () => {
  const here = await begin('rehome_after = "300s"');
  const first = await here.server({}, (io) => io.of("/a"));
  const client = here.open("/", { transports: ["websocket"] });
  const other = client.io.socket("/a");
  await Promise.all([once(client, "connect"), once(other, "connect")]);
  const story = [];
  const held = [];
  const second = await here.server({}, (io) => {
    io.of("/a").use((_, next) => held.push(next));
    for (const name of ["/", "/a"]) {
      io.of(name).on("connection", (socket) => {
        story.push(`in ${name}`);
        socket.on("disconnect", () => story.push(`out ${name}`));
      });
    }
  });
  await first.close();
  await until(() => held.length === 1 && story.length === 1);
  const came = [];
  await here.server({}, (io) => {
    for (const name of ["/", "/a"]) io.of(name).on("connection", ({ recovered }) => came.push([name, recovered]));
  });
  await second.close();
  await until(() => came.length === 2);
  assert.deepEqual(came.sort(), [["/", true], ["/a", true]]);
  // Its middleware is done at last: the socket is another worker's.
  held[0]();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(story, ["in /"]);
  assert.deepEqual([client.connected, other.connected], [true, true]);
  client.disconnect();
  other.disconnect();
});

/** Nobody can hand over events that wait for middleware: the gateway gives them to others when it gives this worker up. */
test("a socket whose events waited for middleware that never answered held up io.close()", async () => {
  const here = await begin('answer_timeout = "20s"');
  const first = await here.server();
  const client = here.open("/", { transports: ["websocket"] });
  await once(client, "connect");
  const held = [];
  const second = await here.server({}, (io) => io.use((_, next) => held.push(next)));
  await first.close();
  await until(() => held.length === 1);
  const answer = client.emitWithAck("echo", 7);
  const third = await here.server({}, (io) => io.on("connection", (socket) => socket.on("echo", (value, done) => done(value))));
  const closed = second.close();
  assert.equal(await answer, 7);
  await closed;
  client.disconnect();
  await third.close();
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
