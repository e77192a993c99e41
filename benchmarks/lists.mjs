// What lists of many sockets cost those who chat: four nodes of one shard at one Redis, a crowd, and a publisher whose room has a member on the
// publisher's node and on another. Rounds without lists, and with lists one after the other, take turns.
// node lists.mjs [--sockets 50000] [--rounds 3] [--seconds 5] [--rate 500] [--worker] [--redis redis-server]
// SOCKEYE_BIN names the program. With --worker the crowd has a worker (the packages of sdk/node, built), which calls fetchSockets(). Prints a table.
import { execFileSync, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const text = (value) => ({ type: "string", default: value });
const { values: options } = parseArgs({
  options: {
    sockets: text("50000"), rounds: text("3"), seconds: text("5"), rate: text("500"), redis: text("redis-server"),
    worker: { type: "boolean", default: false }, crowd: text(""),
  },
});
const [SOCKETS, ROUNDS, SECONDS, RATE] = [options.sockets, options.rounds, options.seconds, options.rate].map(Number);
const GATEWAY = process.env.SOCKEYE_BIN ?? here("../target/production/sockeye");
const [NODES, PROCESSES, AT_ONCE] = [4, 3, 200];
const CROWD = "/crowd";

/** A frame of a client. */
function frame(words) {
  const payload = Buffer.from(words);
  if (payload.length > 125) throw new Error("too long for this frame");
  return Buffer.concat([Buffer.from([0x81, 0x80 | payload.length, 0, 0, 0, 0]), payload]);
}

/** The frames that are whole, as texts; the rest waits. */
function frames(state, chunk) {
  state.rest = Buffer.concat([state.rest, chunk]);
  const found = [];
  for (;;) {
    const { rest } = state;
    if (rest.length < 2) return found;
    const [len, head] = (rest[1] & 0x7f) < 126 ? [rest[1] & 0x7f, 2] : [rest.length < 4 ? Infinity : rest.readUInt16BE(2), 4];
    if (rest.length < head + len) return found;
    found.push(rest.toString("utf8", head, head + len));
    state.rest = rest.subarray(head + len);
  }
}

/** A socket of a namespace. */
function comes(port, namespace, hear) {
  return new Promise((done, fail) => {
    const socket = connect(port, "127.0.0.1");
    const state = { rest: Buffer.alloc(0), isOpen: false };
    const at = namespace === "/" ? "" : `${namespace},`;
    socket.setNoDelay(true);
    socket.on("error", fail).on("close", () => fail(new Error("a client was put out")));
    socket.write(
      `GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
        `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}\r\n\r\n`,
    );
    socket.on("data", (bytes) => {
      let chunk = bytes;
      if (!state.isOpen) {
        state.rest = Buffer.concat([state.rest, chunk]);
        const end = state.rest.indexOf("\r\n\r\n");
        if (end < 0) return;
        chunk = state.rest.subarray(end + 4);
        [state.rest, state.isOpen] = [Buffer.alloc(0), true];
      }
      for (const packet of frames(state, chunk)) {
        if (packet === "2") socket.write(frame("3"));
        else if (packet.startsWith("0{")) socket.write(frame(`40${at}`));
        else if (packet.startsWith(`40${at}{`)) done(socket);
        else if (packet.startsWith(`44${at}`)) fail(new Error(packet));
        else hear?.(packet);
      }
    });
  });
}

if (options.crowd !== "") {
  const ports = options.crowd.split(",").map(Number);
  for (let n = 0; n < SOCKETS; n += AT_ONCE) {
    const some = Math.min(AT_ONCE, SOCKETS - n);
    await Promise.all(Array.from({ length: some }, (_, at) => comes(ports[(n + at) % ports.length], CROWD)));
  }
  console.log("ready");
  await once(process.stdin, "end");
  process.exit(0);
}

const folder = mkdtempSync(join(tmpdir(), "sockeye-lists-"));
const children = [];
const key = (name, ...args) => execFileSync(GATEWAY, ["api-key", name, ...args], { encoding: "utf8" });
const secret = (said) => /(sockeye_\S+)/.exec(said)[1];
const KEY = secret(key("lists"));
const digest = createHash("sha256").update(KEY).digest("hex");

function start(program, args, stdio = ["ignore", "ignore", "pipe"]) {
  const child = spawn(program, args, { cwd: folder, stdio });
  children.push(child);
  return child;
}

async function redis() {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address();
  await new Promise((done) => free.close(done));
  start(options.redis.includes("/") ? resolve(options.redis) : options.redis, ["--port", String(port), "--save", ""]).stderr.resume();
  await sleep(1_000);
  return `redis://127.0.0.1:${port}`;
}

async function node(number, url) {
  const file = join(folder, `${number}.toml`);
  const lines = [
    'profile = "socket.io"', "[server]", "shards = 1", "[log]", 'format = "json"', 'level = "info"', "connections = false",
    "[cluster]", 'adapter = "redis"', `urls = ["${url}"]`, 'secret = "of this run"', "[admin]", `api_keys = ["lists:${digest}"]`,
    '[namespaces."/"]', "client_joins = true", '[namespaces."/".events.tick]', 'action = "rooms"', 'room = "bench"', "echo = true", `[namespaces."${CROWD}"]`,
  ];
  if (options.worker) lines.push('backend = "kitchen"', "[workers]", 'listen = "127.0.0.1:0"', "[backends.kitchen]", `api_keys = ["lists:${digest}"]`);
  writeFileSync(file, lines.join("\n"));
  const child = start(GATEWAY, ["--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
  const said = [];
  for await (const line of createInterface({ input: child.stderr })) {
    said.push(line);
    if (!line.includes('"listening"')) continue;
    child.stderr.resume();
    const { addresses, admin, workers } = JSON.parse(line);
    return { child, admin: `http://${admin}`, workers, port: Number(/:(\d+)/.exec(addresses)[1]) };
  }
  throw new Error(`${GATEWAY} ended:\n${said.join("\n")}`);
}

async function worker(nodes) {
  const sdk = join(resolve(process.env.SDK ?? here("../sdk/node")), "package.json");
  const { Server } = createRequire(sdk)("@sockeye/server");
  const io = new Server({ gateway: nodes.map(({ workers }) => workers), key: KEY, backend: "kitchen" });
  io.of(CROWD).on("connection", () => {});
  await io.ready;
  return io.of(CROWD);
}

/** Sockets of a list, and how long it took. */
async function byApi(nodes) {
  const answer = await fetch(`${nodes[0].admin}/v1/rooms?namespace=${encodeURIComponent(CROWD)}&limit=1`, { headers: { authorization: `Bearer ${KEY}` } });
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()).complete;
}

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;

/** Delays of all that is published meanwhile, and how long each list took. */
async function round(talker, heard, list) {
  const [delays, took] = [[], []];
  heard.note = (sent) => delays.push(performance.now() - sent);
  const ends = performance.now() + SECONDS * 1_000;
  let lists = list === undefined ? undefined : true;
  const listing = (async () => {
    while (lists && performance.now() < ends) {
      const began = performance.now();
      const whole = await list();
      took.push(performance.now() - began);
      if (whole === false) throw new Error("a list was not whole");
    }
  })();
  let said = 0;
  for (let due = performance.now(); due < ends; due += 1_000 / RATE) {
    const wait = due - performance.now();
    if (wait > 0.5) await sleep(wait);
    talker.write(frame(`42["tick",${performance.now()}]`));
    said += 1;
  }
  lists = false;
  await listing;
  await sleep(500);
  return { said, delays, took };
}

function row(name, rounds) {
  const delays = rounds.flatMap((one) => one.delays).toSorted((one, other) => one - other);
  const took = rounds.flatMap((one) => one.took).toSorted((one, other) => one - other);
  const said = rounds.reduce((sum, one) => sum + one.said, 0);
  const ms = (value) => (Number.isNaN(value) ? "-" : value.toFixed(1));
  const parts = [0.5, 0.99, 0.999, 1].map((share) => ms(quantile(delays, share)));
  console.log(`| ${name} | ${said} | ${2 * said - delays.length} | ${parts.join(" | ")} | ${took.length} | ${ms(quantile(took, 0.5))} |`);
}

/** Of what a node keeps, most of that for lists, looked at every 20 ms. */
async function most(nodes, until) {
  const all = { kept: 0, resident: 0 };
  while (!until.over) {
    for (const { admin } of nodes) {
      const metrics = await (await fetch(`${admin}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })).text();
      const stocks = [...metrics.matchAll(/^sockeye_kept_bytes\{[^}]*stock="(?:rounds|lists)"[^}]*\} (\d+)/gm)];
      all.kept = Math.max(all.kept, stocks.reduce((sum, [, bytes]) => sum + Number(bytes), 0));
      all.resident = Math.max(all.resident, Number(/^process_resident_memory_bytes (\S+)/m.exec(metrics)?.[1] ?? 0));
    }
    await sleep(20);
  }
  return all;
}

try {
  const url = await redis();
  const nodes = [];
  for (let n = 0; n < NODES; n += 1) nodes.push(await node(n, url));
  await sleep(2_500);
  const crew = options.worker ? await worker(nodes) : undefined;
  const ports = nodes.map(({ port }) => port).join(",");
  const each = Math.ceil(SOCKETS / PROCESSES);
  const args = [fileURLToPath(import.meta.url), "--crowd", ports, "--sockets", String(each)];
  const crowds = Array.from({ length: PROCESSES }, () => start(process.execPath, args, ["pipe", "pipe", "inherit"]));
  for (const crowd of crowds) if (!String(await once(crowd.stdout, "data")).includes("ready")) throw new Error("no crowd");
  const heard = { note: () => {} };
  const hear = (packet) => packet.startsWith('42["tick"') && heard.note(JSON.parse(packet.slice(2))[1]);
  const [talker, far] = [await comes(nodes[0].port, "/", hear), await comes(nodes[1].port, "/", hear)];
  for (const socket of [talker, far]) socket.write(frame('420["join","bench"]'));
  await sleep(2_000);
  const kinds = [["no list", undefined], ["`GET /v1/rooms`", () => byApi(nodes)]];
  if (crew) {
    kinds.push(["`fetchSockets()` of a worker", async () => (await crew.fetchSockets()).length >= SOCKETS]);
  }
  const results = new Map(kinds.map(([name]) => [name, []]));
  const until = { over: false };
  for (let n = 0; n < ROUNDS; n += 1) for (const [name, list] of kinds) results.get(name).push(await round(talker, heard, list));
  console.log(`${each * PROCESSES} sockets on ${NODES} nodes of one shard, ${RATE} publications a second, ${ROUNDS} rounds of ${SECONDS} s, load ${loadavg().map((load) => load.toFixed(1)).join(" ")}\n`);
  console.log("| lists | publications | not heard | p50 ms | p99 | p99.9 | most | lists made | each ms |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|");
  for (const [name, rounds] of results) row(name, rounds);
  const looked = most(nodes, until);
  for (const [, list] of kinds) if (list) for (let n = 0; n < 5; n += 1) await list();
  until.over = true;
  const { kept, resident } = await looked;
  console.log(`\nMost that a node kept for lists: ${(kept / 2 ** 20).toFixed(1)} MiB; most resident memory of a node: ${(resident / 2 ** 20).toFixed(0)} MiB`);
} finally {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
