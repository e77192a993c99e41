// How soon all nodes know who is in a room, and what a member costs: three nodes of two shards at one Redis, ten rooms, watchers of each room on each
// node. Then one node is killed. node presence.mjs [--members 10000] [--rate 1000] [--redis redis-server]
// SOCKEYE_BIN names the program; its folder's packages are those of sdk/node. Prints a table.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { freePort } from "../conformance/ports.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { WebSocket } = createRequire(here("../sdk/node/package.json"))("ws");
const text = (value) => ({ type: "string", default: value });
const { values: options } = parseArgs({ options: { members: text("10000"), rate: text("1000"), redis: text("redis-server") } });
const [MEMBERS, RATE] = [Number(options.members), Number(options.rate)];
const REDIS = options.redis.includes("/") ? resolve(options.redis) : options.redis;
const GATEWAY = process.env.SOCKEYE_BIN ?? here("../target/production/sockeye");
const [NODES, ROOMS, KILLED] = [3, 10, 2];
const AGREED = 1_000;
const folder = mkdtempSync(join(tmpdir(), "sockeye-presence-"));
const children = [];

function start(program, args) {
  const child = spawn(program, args, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  children.push(child);
  return child;
}

async function redis() {
  const port = await freePort();
  start(REDIS, ["--port", String(port), "--save", ""]).stderr.resume();
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    const open = await Promise.race([once(socket, "connect").then(() => true), once(socket, "error").then(() => false)]).catch(() => false);
    socket.destroy();
    if (open) return `redis://127.0.0.1:${port}`;
    await sleep(20);
  }
}

async function node(number, url, presence) {
  const file = join(folder, `${number}.toml`);
  const lines = [
    'profile = "socket.io"', "[server]", "shards = 2", "[log]", 'format = "json"', "[cluster]", 'adapter = "redis"', `urls = ["${url}"]`, 'secret = "of this run"',
    '[namespaces."/"]', "client_joins = true", '[namespaces."/".presence]', `enabled = ${presence}`, `names_max = ${MEMBERS}`, "[limits]", 'outbox_bytes_max = "8MiB"',
  ];
  writeFileSync(file, lines.join("\n"));
  const child = start(GATEWAY, ["--config", file, "--listen", "127.0.0.1:0", "--admin", "off"]);
  for await (const line of createInterface({ input: child.stderr })) {
    if (!line.includes('"listening"')) continue;
    child.stderr.resume();
    return { child, url: `ws://${JSON.parse(line).addresses.split(",")[0]}/socket.io/?EIO=4&transport=websocket` };
  }
  throw new Error(`cannot start ${GATEWAY}: it ended`);
}

const rss = ({ child }) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))[1]) * 1024;

/** A socket in a room: its id, when it was let in, and all that its room says. */
function comes({ url }, room, hear) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { perMessageDeflate: false });
    let id;
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("a client was put out")));
    socket.on("message", (data) => {
      const packet = data.toString();
      if (packet === "2") socket.send("3");
      else if (packet.startsWith("0{")) socket.send("40");
      else if (packet.startsWith("40{")) {
        ({ sid: id } = JSON.parse(packet.slice(2)));
        socket.send(`420["join",${JSON.stringify(room)}]`);
      } else if (packet.startsWith("430")) resolve({ id, socket, at: performance.now() });
      else if (hear && packet.startsWith('42["sockeye:presence"')) hear(JSON.parse(packet.slice(2))[1]);
    });
  });
}

const room = (n) => `room-${n % ROOMS}`;

/** For each watcher: when it heard of whom. */
async function watch(nodes) {
  const watchers = nodes.flatMap((node, at) => Array.from({ length: ROOMS }, (_, n) => ({ node, at, room: room(n), came: new Map(), went: new Map() })));
  for (const watcher of watchers) {
    const note = (to, list = []) => list.forEach(({ id }) => to.set(id, performance.now()));
    const hear = ({ joined, left }) => {
      note(watcher.came, joined);
      note(watcher.went, left);
    };
    watcher.own = await comes(watcher.node, watcher.room, hear);
  }
  return watchers;
}

async function arrive(nodes) {
  const began = performance.now();
  const all = [];
  for (let n = 0; n < MEMBERS; n += 1) {
    const due = began + (n * 1_000) / RATE;
    if (due > performance.now()) await sleep(due - performance.now());
    const at = n % NODES;
    all.push(comes(nodes[at], room(n)).then((one) => ({ ...one, node: at, room: room(n) })));
  }
  return Promise.all(all);
}

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
const seconds = (ms) => `${(ms / 1_000).toFixed(2)} s`;

/** How long each watcher of a member's room took to hear of it; missing ones count as never. */
function delays(watchers, members, kind, from) {
  const all = members.flatMap((member) =>
    watchers.filter((watcher) => watcher.room === member.room).map((watcher) => (watcher[kind].get(member.id) ?? Infinity) - from(member)));
  return all.toSorted((one, other) => one - other);
}

function row(name, all) {
  const late = all.filter((delay) => delay === Infinity).length;
  console.log(`| ${name} | ${all.length} | ${seconds(quantile(all, 0.5))} | ${seconds(quantile(all, 0.99))} | ${seconds(all.at(-1 - late))} | ${late} |`);
}

async function measure(presence) {
  const url = await redis();
  const nodes = [];
  for (let n = 0; n < NODES; n += 1) nodes.push(await node(n, url, presence));
  const watchers = await watch(nodes);
  await sleep(2_000);
  const empty = nodes.map(rss);
  const members = await arrive(nodes);
  await sleep(3_000);
  const bytes = nodes.map((node, at) => rss(node) - empty[at]);
  return { nodes, watchers, members, bytes };
}

try {
  const without = await measure(false);
  for (const { socket } of [...without.members, ...without.watchers.map(({ own }) => own)]) socket.removeAllListeners().terminate();
  for (const child of children.splice(0)) child.kill("SIGKILL");
  const { nodes, watchers, members, bytes } = await measure(true);
  console.log(`${MEMBERS} members at ${RATE} a second in ${ROOMS} rooms, ${NODES} nodes, load ${loadavg().map((load) => load.toFixed(1)).join(" ")}\n`);
  console.log("| what each of the watchers heard | times | p50 | p99 | most | not heard |\n|---|---:|---:|---:|---:|---:|");
  row("an arrival, after the ack of its join", delays(watchers, members, "came", ({ at }) => at));
  const gone = members.filter(({ node }) => node === KILLED);
  for (const { socket } of gone) socket.removeAllListeners("close");
  for (const { own, at } of watchers) if (at === KILLED) own.socket.removeAllListeners("close");
  const killed = performance.now();
  nodes[KILLED].child.kill("SIGKILL");
  await sleep(25_000);
  const left = watchers.filter(({ at }) => at !== KILLED);
  row("a member of the node that was killed", delays(left, gone, "went", () => killed));
  const cost = bytes.map((all, at) => (all - without.bytes[at]) / MEMBERS);
  console.log(`\nResident bytes for each member and node beyond those without presence: ${cost.map((each) => each.toFixed(0)).join(", ")}`);
  const spread = delays(watchers, members, "came", ({ at }) => at);
  if (spread.at(-1) > AGREED) console.log("The goal of 1 s is missed.");
} finally {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
