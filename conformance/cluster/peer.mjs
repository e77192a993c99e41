// A Node Socket.IO server in a cluster, its clients, and an emitter, driven by lines of JSON.
//
//   node peer.mjs --redis redis://127.0.0.1:6379 --adapter classic|sharded|streams|none [--namespaces /,/lab] [--cluster]
//
// Its first line is {"port":N}. Each line of input is a command {"id":1,"do":"emit",…}; its answer is {"id":1,"ok":…} or
// {"id":1,"error":"…"}. In between it tells what clients and the server hear: {"client":"c1","event":"ev","args":[…]} and
// {"server":"/lab","args":[…]}. What JSON cannot say is {"$bytes":"0102"}, {"$date":1700000000123}, {"$undefined":true}.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { createAdapter, createShardedAdapter } from "@socket.io/redis-adapter";
import { Emitter } from "@socket.io/redis-emitter";
import { createAdapter as createStreamsAdapter } from "@socket.io/redis-streams-adapter";
import { createClient, createCluster } from "redis";
import { Server } from "socket.io";
import { io as connectClient } from "socket.io-client";

const { values: settings } = parseArgs({
  options: {
    redis: { type: "string" },
    adapter: { type: "string", default: "classic" },
    namespaces: { type: "string", default: "/" },
    specific: { type: "boolean", default: false },
    cluster: { type: "boolean", default: false },
  },
});

const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

async function connect() {
  const url = settings.redis;
  const client = settings.cluster ? createCluster({ rootNodes: [{ url }] }) : createClient({ url });
  client.on("error", (error) => console.error(`redis: ${error.message}`));
  await client.connect();
  return client;
}

async function adapter() {
  const publisher = await connect();
  switch (settings.adapter) {
    case "streams":
      return createStreamsAdapter(publisher);
    case "sharded":
      return createShardedAdapter(publisher, await connect());
    case "classic":
      return createAdapter(publisher, await connect(), { publishOnSpecificResponseChannel: settings.specific });
    default:
      throw new Error(`--adapter: "${settings.adapter}" is unknown, give classic, sharded, streams or none`);
  }
}

// ---- values that JSON does not have ------------------------------------------------------------

function show(value) {
  if (value === undefined) return { $undefined: true };
  if (value instanceof Date) return { $date: value.getTime() };
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return { $bytes: Buffer.from(value).toString("hex") };
  if (Array.isArray(value)) return value.map(show);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, show(item)]));
}

function read(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(read);
  if ("$undefined" in value) return undefined;
  if ("$date" in value) return new Date(value.$date);
  if ("$bytes" in value) return Buffer.from(value.$bytes, "hex");
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, read(item)]));
}

// ---- the server --------------------------------------------------------------------------------

const http = createServer();
const io = new Server(http);
if (settings.adapter !== "none") io.adapter(await adapter());
for (const name of settings.namespaces.split(",")) {
  const namespace = io.of(name);
  namespace.on("connection", (socket) => {
    socket.data = { of: name };
    socket.on("join", (room, done) => Promise.resolve(socket.join(room)).then(() => done(socket.id)));
  });
  const hear = (...args) => {
    const answer = typeof args.at(-1) === "function" ? args.pop() : undefined;
    tell({ server: name, args: show(args) });
    answer?.(`heard ${args[0]}`);
  };
  namespace.on("ping-nodes", (...args) => hear("ping-nodes", ...args));
}

const emitter = settings.redis && new Emitter(await connect());
const clients = new Map();

/** A client of this server, or of another one at `url`; it is a member of `rooms` here before the command is answered. */
async function addClient({ name, nsp = "/", rooms = [], url }) {
  const base = url ?? `http://127.0.0.1:${http.address().port}`;
  const client = connectClient(base + nsp, { transports: ["websocket"], forceNew: true, reconnection: false });
  clients.set(name, client);
  client.onAny((event, ...args) => {
    const ack = typeof args.at(-1) === "function" ? args.pop() : undefined;
    tell({ client: name, event, args: show(args) });
    if (ack && event !== "silent") ack(...(event === "ask-bytes" ? [Buffer.from(name), 2] : [`${name} got ${event}`, 2]));
  });
  client.on("disconnect", (why) => tell({ client: name, event: "disconnect", args: [why] }));
  await new Promise((resolve, reject) => {
    client.once("connect", resolve);
    client.once("connect_error", reject);
  });
  for (const room of rooms) await client.timeout(5000).emitWithAck("join", room);
  return client.id;
}

/** Whom a command means, of the server or, with `emitter`, of the emitter. */
function target({ nsp = "/", to = [], except = [], volatile, via }) {
  let chosen = via === "emitter" ? emitter.of(nsp) : io.of(nsp);
  if (to.length) chosen = chosen.to(to);
  if (except.length) chosen = chosen.except(except);
  if (volatile) chosen = chosen.volatile;
  return chosen;
}

const COMMANDS = {
  client: addClient,
  say: ({ name, event, args = [] }) => void clients.get(name).emit(event, ...args.map(read)),
  askServer: ({ name, event, args = [] }) => clients.get(name).timeout(5000).emitWithAck(event, ...args.map(read)),
  emit: (command) => void target(command).emit(command.event, ...(command.args ?? []).map(read)),
  ask: async (command) => {
    const { timeout = 3000, event, args = [] } = command;
    try {
      return show(await target(command).timeout(timeout).emitWithAck(event, ...args.map(read)));
    } catch (error) {
      return { error: error.message, answers: show(error.responses) };
    }
  },
  fetch: async (command) => {
    const found = await target(command).fetchSockets();
    return show(found.map(({ id, rooms, data, handshake }) => ({ id, rooms: [...rooms], data, handshake })));
  },
  join: (command) => void target(command).socketsJoin(command.rooms),
  leave: (command) => void target(command).socketsLeave(command.rooms),
  disconnect: (command) => void target(command).disconnectSockets(command.close),
  serverEmit: (command) => void target(command).serverSideEmit(...command.args.map(read)),
  serverAsk: ({ nsp = "/", args }) =>
    new Promise((resolve) => {
      io.of(nsp).serverSideEmit(...args.map(read), (error, answers) =>
        resolve(error ? { error: error.message, answers: show(answers) } : show(answers)),
      );
    }),
  allRooms: async ({ nsp = "/" }) => [...(await io.of(nsp).adapter.allRooms())],
  // Its clients are disconnected; those of other servers, and the emitter, stay.
  stopServer: () => io.close(),
  uid: ({ nsp = "/" }) => io.of(nsp).adapter.uid,
  localRooms: ({ nsp = "/", name }) => [...(io.of(nsp).sockets.get(clients.get(name).id)?.rooms ?? [])],
};

async function carryOut(line) {
  const command = JSON.parse(line);
  try {
    tell({ id: command.id, ok: (await COMMANDS[command.do](command)) ?? null });
  } catch (error) {
    tell({ id: command.id, error: error.message });
  }
}

// Lines are carried out one after the other, but a question does not hold up what comes behind it.
createInterface({ input: process.stdin }).on("line", carryOut).on("close", () => process.exit(0));
http.listen(0, "127.0.0.1", () => tell({ port: http.address().port }));
