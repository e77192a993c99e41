// Socket.IO's own admin page looks at a worker: what it is told, and what it may do.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { stage, until } from "./stage.mjs";

const { instrument } = createRequire(import.meta.url)("@socket.io/admin-ui");
let here;

before(async () => (here = await stage()));
after(() => here.close());

/** The page's connection: what it has heard, by event. */
function page(options = {}) {
  const socket = here.open("/admin", options);
  const heard = [];
  socket.onAny((event, ...args) => heard.push([event, ...args]));
  const of = (event) => heard.filter(([name]) => name === event).map(([, ...args]) => args);
  return { socket, of };
}

test("the page is shown who is here, what they do, and what it may do", async () => {
  const io = await here.server({}, (io) => instrument(io, { auth: false, mode: "development" }));
  io.on("connection", (socket) => {
    socket.on("enter", (room, done) => Promise.resolve(socket.join(room)).then(() => done()));
    socket.on("say", (text, done) => {
      socket.emit("said", text);
      done();
    });
  });
  const early = here.open("/", { transports: ["websocket"] });
  await once(early, "connect");
  const admin = page();
  await until(() => admin.of("all_sockets").length > 0 && admin.of("server_stats").length > 0);
  const [[config]] = admin.of("config");
  for (const feature of ["EMIT", "JOIN", "LEAVE", "DISCONNECT", "ALL_EVENTS", "AGGREGATED_EVENTS"]) assert.ok(config.supportedFeatures.includes(feature), feature);
  const [[all]] = admin.of("all_sockets");
  assert.ok(all.some(({ id, nsp, transport }) => id === early.id && nsp === "/" && transport === "websocket"), JSON.stringify(all));

  const late = here.open("/", { transports: ["websocket"] });
  await once(late, "connect");
  // A client that is gone has none.
  const { id } = late;
  await late.emitWithAck("enter", "den");
  await late.emitWithAck("say", "hi");
  const mine = (event, at) => admin.of(event).some((args) => JSON.stringify(args[at]).includes(id));
  await until(() => mine("socket_connected", 0) && mine("event_received", 1) && mine("event_sent", 1));
  await until(() => admin.of("room_joined").some(([nsp, room, socket]) => nsp === "/" && room === "den" && socket === id));
  await until(() => admin.of("server_stats").some(([{ aggregatedEvents, namespaces }]) => aggregatedEvents.some(({ type }) => type === "bytesIn") && namespaces.some(({ name, socketsCount }) => name === "/" && socketsCount === 2)));

  // What it does reaches clients by the gateway.
  admin.socket.emit("join", "/", "reef", early.id);
  await until(() => admin.of("room_joined").some(([, room, id]) => room === "reef" && id === early.id));
  const told = once(early, "notice");
  admin.socket.emit("emit", "/", "reef", "notice", "from the page");
  assert.deepEqual(await told, ["from the page"]);
  const gone = once(late, "disconnect");
  admin.socket.emit("_disconnect", "/", false, id);
  assert.equal((await gone)[0], "io server disconnect");
  await until(() => mine("socket_disconnected", 1));
  for (const socket of [early, late, admin.socket]) socket.disconnect();
  await io.close();
});

test("a page without the password is refused, and hears nothing", async () => {
  // Of "open sesame".
  const password = "$2b$10$heqvAkYMez.Va6Et2uXInOnkCT6/uQj1brkrbyG3LpopDklcq7ZOS";
  const io = await here.server({}, (io) => instrument(io, { auth: { type: "basic", username: "ops", password } }));
  const admin = page({ auth: { username: "ops", password: "guess" } });
  const [error] = await once(admin.socket, "connect_error");
  assert.match(error.message, /invalid credentials/);
  assert.deepEqual(admin.of("config"), []);
  admin.socket.disconnect();
  await io.close();
});
