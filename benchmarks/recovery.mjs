// What it costs that clients come back when their node died: events from clients of one node to clients of another, through the stream that
// recovery reads. Sockeye (level `cluster`), Socket.IO with its streams adapter and recovery, and Centrifugo with history in Redis and
// recovery, two nodes each, a Redis of their own, in turns. First as many events as pass, then 1,000 a second with the time to the receiver.
// node benchmarks/recovery.mjs --sockeye target/release/sockeye --centrifugo centrifugo --modules conformance/cluster [--redis redis-server]
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import net from "node:net";
import { loadavg, tmpdir } from "node:os";
import { join, resolve as absolute } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { freePort } from "../conformance/ports.mjs";

const text = (value) => ({ type: "string", default: value });
const { values: options } = parseArgs({
  options: {
    sockeye: { type: "string" }, centrifugo: { type: "string" }, modules: { type: "string" }, redis: text("redis-server"),
    seconds: text("8"), rounds: text("3"), role: text("main"), port: text("0"), url: text(""),
  },
});
for (const program of ["sockeye", "centrifugo", "redis", "modules"]) {
  if (options[program]?.includes("/")) options[program] = absolute(options[program]);
}
const need = createRequire(join(options.modules ?? ".", "package.json"));
const SECONDS = Number(options.seconds);
const PACE = 1000;
const ROOMS = 20;
/** Receivers of a room, all at the second node. */
const MEMBERS = 2;
/** Events of a room that are under way at once. */
const WINDOW = 16;
const TEXT = "x".repeat(128);
const ME = fileURLToPath(import.meta.url);

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];

/** Below those that the kernel gives to clients: who asks such a port whether somebody listens may meet itself. */
// ---- a node of Socket.IO ------------------------------------------------------------------------------------------------------

async function socketIoNode() {
  const { Server } = need("socket.io");
  const { createAdapter } = need("@socket.io/redis-streams-adapter");
  const client = need("redis").createClient({ url: options.url });
  await client.connect();
  const io = new Server({
    adapter: createAdapter(client, { maxLen: 200_000 }),
    connectionStateRecovery: { maxDisconnectionDuration: 120_000 },
    transports: ["websocket"],
    perMessageDeflate: false,
  });
  io.on("connection", (socket) => {
    socket.on("join", (room, done) => {
      socket.join(room);
      done([room]);
    });
    socket.on("say", (body) => socket.to(body.room).emit("say", body));
  });
  io.listen(Number(options.port));
}

// ---- processes ----------------------------------------------------------------------------------------------------------------

async function started(child, port) {
  for (let n = 0; n < 600; n++) {
    if (child.exitCode !== null) throw new Error(`${child.spawnfile} ended with ${child.exitCode}: ${child.said}`);
    const up = await new Promise((resolve) => {
      const socket = net.connect(port, "127.0.0.1", () => resolve(true) || socket.destroy()).on("error", () => resolve(false));
    });
    if (up) return child;
    await sleep(50);
  }
  throw new Error(`${child.spawnfile} does not listen on ${port}`);
}

function run(program, args, cwd) {
  const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  child.said = "";
  for (const pipe of [child.stdout, child.stderr]) pipe.on("data", (line) => (child.said = (child.said + line).slice(-2000)));
  return child;
}

/** Microseconds of processor that a process has used. */
async function used(pid) {
  const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

async function redis(folder) {
  const port = await freePort();
  const child = run(options.redis, ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], folder);
  return { child: await started(child, port), url: `redis://127.0.0.1:${port}` };
}

// ---- the three, and how their clients speak -----------------------------------------------------------------------------------

/** Socket.IO's protocol, for both that speak it. */
const SPEAKS_SOCKET_IO = {
  path: "/socket.io/?EIO=4&transport=websocket",
  begin: (socket) => socket.send("40"),
  isWelcome: (frame) => frame.startsWith("40"),
  join: (socket, room) => socket.send(`420["join",${JSON.stringify(room)}]`),
  hasJoined: (frame) => frame.startsWith("430"),
  isPing: (frame) => frame === "2",
  pong: (socket) => socket.send("3"),
  say: (socket, room, body) => socket.send(`42["say",${JSON.stringify({ room, ...body })}]`),
  *heard(frame) {
    if (frame.startsWith('42["say"')) yield JSON.parse(frame.slice(2))[1];
  },
};

const SPEAKS_CENTRIFUGO = {
  path: "/connection/websocket",
  begin: (socket) => socket.send('{"id":1,"connect":{}}'),
  isWelcome: (frame) => frame.includes('"connect":'),
  join: (socket, room) => socket.send(JSON.stringify({ id: 2, subscribe: { channel: room } })),
  hasJoined: (frame) => frame.includes('"subscribe":'),
  isPing: (frame) => frame === "{}",
  pong: (socket) => socket.send("{}"),
  say: (socket, room, body) => socket.send(JSON.stringify({ id: 3, publish: { channel: room, data: body } })),
  *heard(frame) {
    for (const line of frame.split("\n")) {
      if (line.includes('"push":')) yield JSON.parse(line).push.pub?.data;
    }
  },
};

async function sockeye(url, folder, n) {
  const port = await freePort();
  const lines = [
    'profile = "socket.io"', "[server]", "shards = 1", "[cluster]", 'adapter = "redis"', `urls = ["${url}"]`, 'secret = "of this run"',
    '[namespaces."/"]', "client_joins = true", '[namespaces."/".recovery]', 'level = "cluster"',
    '[namespaces."/".events.say]', 'action = "rooms"', 'room_field = "room"',
  ];
  const file = join(folder, `sockeye${n}.toml`);
  await writeFile(file, lines.join("\n"));
  const admin = await freePort();
  const child = run(options.sockeye, ["--config", file, "--listen", `127.0.0.1:${port}`, "--admin", `127.0.0.1:${admin}`], folder);
  return { child: await started(child, port), port };
}

async function socketIo(url, folder) {
  const port = await freePort();
  const args = [ME, "--role", "socket.io", "--modules", options.modules, "--url", url, "--port", `${port}`];
  return { child: await started(run(process.execPath, args, folder), port), port };
}

async function centrifugo(url, folder, n) {
  const port = await freePort();
  const config = {
    http_server: { address: "127.0.0.1", port: `${port}` },
    log: { level: "error" },
    client: { allow_anonymous_connect_without_token: true },
    channel: {
      without_namespace: {
        history_size: 10_000, history_ttl: "120s", force_recovery: true, allow_subscribe_for_anonymous: true, allow_subscribe_for_client: true,
        allow_publish_for_anonymous: true, allow_publish_for_client: true,
      },
    },
    engine: { type: "redis", redis: { address: url } },
  };
  const file = join(folder, `centrifugo${n}.json`);
  await writeFile(file, JSON.stringify(config));
  return { child: await started(run(options.centrifugo, ["--config", file], folder), port), port };
}

// ---- the load -----------------------------------------------------------------------------------------------------------------

function client(node, speech, room) {
  const WebSocket = need("ws");
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${node.port}${speech.path}`, { perMessageDeflate: false });
    const timer = setTimeout(() => reject(new Error(`no answer within 10 s: ${node.child.said}`)), 10_000);
    socket.on("error", reject).on("open", () => speech.begin(socket));
    socket.heard = () => {};
    socket.on("message", (data) => {
      const frame = data.toString();
      if (speech.isPing(frame)) return speech.pong(socket);
      if (!socket.isIn && speech.isWelcome(frame)) return speech.join(socket, room);
      if (!socket.isIn && speech.hasJoined(frame)) {
        socket.isIn = true;
        clearTimeout(timer);
        return resolve(socket);
      }
      for (const body of speech.heard(frame)) if (body) socket.heard(body);
    });
  });
}

async function measure(name, speech, make) {
  const folder = await mkdtemp(join(tmpdir(), "recovery-"));
  const children = [];
  const sockets = [];
  try {
    const back = await redis(folder);
    children.push(back.child);
    const nodes = [];
    for (const n of [1, 2]) {
      nodes.push(await make(back.url, folder, n));
      children.push(nodes.at(-1).child);
    }
    // They meet.
    await sleep(3000);
    const rooms = Array.from({ length: ROOMS }, (_, n) => `room-${n}`);
    const speakers = await Promise.all(rooms.map((room) => client(nodes[0], speech, room)));
    const members = await Promise.all(rooms.flatMap((room) => Array.from({ length: MEMBERS }, () => client(nodes[1], speech, room))));
    sockets.push(...speakers, ...members);
    await sleep(500);
    const cpu = async () => {
      const [store, ...own] = await Promise.all(children.map((child) => used(child.pid)));
      return { store, nodes: own.reduce((sum, one) => sum + one, 0), me: process.cpuUsage() };
    };
    // As many as pass: a room says the next when its first member has one.
    let passed = 0;
    let isOver = false;
    for (const [n, speaker] of speakers.entries()) {
      members[n * MEMBERS].heard = () => {
        passed += 1;
        if (!isOver) speech.say(speaker, rooms[n], { at: 0, text: TEXT });
      };
      for (let k = 0; k < WINDOW; k++) speech.say(speaker, rooms[n], { at: 0, text: TEXT });
    }
    await sleep(1000);
    const before = await cpu();
    const first = passed;
    const began = performance.now();
    await sleep(SECONDS * 1000);
    const rate = ((passed - first) * 1000) / (performance.now() - began);
    const after = await cpu();
    isOver = true;
    await sleep(1000);
    const each = (part) => (after[part] - before[part]) / (passed - first);
    const mine = process.cpuUsage(before.me);
    const share = (mine.user + mine.system) / 1000 / (performance.now() - began);
    // So many a second, whatever comes.
    const waits = [];
    let wanted = 0;
    for (const member of members) member.heard = ({ at }) => waits.push(performance.now() - at);
    const begin = performance.now();
    for (let n = 0; n < PACE * SECONDS; n++) {
      const due = begin + (n * 1000) / PACE;
      const early = due - performance.now();
      if (early > 1) await sleep(early);
      // Too late counts; a moment too early does not.
      const at = Math.min(due, performance.now());
      speech.say(speakers[n % ROOMS], rooms[n % ROOMS], { at, text: TEXT });
      wanted += MEMBERS;
    }
    for (let n = 0; n < 50 && waits.length < wanted; n++) await sleep(100);
    if (waits.length !== wanted) throw new Error(`${name}: ${waits.length} of ${wanted} arrived`);
    waits.sort((a, b) => a - b);
    return { name, rate, nodes: each("nodes"), store: each("store"), share, p50: quantile(waits, 0.5), p99: quantile(waits, 0.99) };
  } finally {
    for (const socket of sockets) socket.terminate();
    for (const child of children) child.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function main() {
  const kinds = [];
  if (options.sockeye) kinds.push(["Sockeye", SPEAKS_SOCKET_IO, sockeye]);
  kinds.push(["Socket.IO, streams adapter", SPEAKS_SOCKET_IO, socketIo]);
  if (options.centrifugo) kinds.push(["Centrifugo, Redis", SPEAKS_CENTRIFUGO, centrifugo]);
  console.log(
    `| server | events/s | CPU us an event, nodes / Redis | generator, cores | p50 / p99 at ${PACE}/s | load of the machine |\n|---|---|---|---|---|---|`,
  );
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const kind of kinds) {
      const found = await measure(...kind);
      const cpu = `${found.nodes.toFixed(0)} / ${found.store.toFixed(0)}`;
      const waits = `${found.p50.toFixed(1)} / ${found.p99.toFixed(1)} ms`;
      console.log(`| ${found.name} | ${found.rate.toFixed(0)} | ${cpu} | ${found.share.toFixed(2)} | ${waits} | ${loadavg()[0].toFixed(1)} |`);
    }
  }
  process.exit(0);
}

if (options.role === "socket.io") await socketIoNode();
else await main();
