// What lists of all sockets cost those who talk meanwhile: nodes at one Redis hold a crowd, members of a small room on each node hear a paced publication,
// and a program asks for the list of the whole crowd: a list a second, or with --pause 0 one after the other. Times without lists and with them take turns.
// node lists.mjs [--clients 50000] [--by api,node,worker] [--spin 250] [--pause 1000] [--rate 200] [--seconds 20] [--rounds 3] [--nodes 4] [--shards 2]
// api: the server API of one node after the other counts the crowd's room, from a list of its members. node: `fetchSockets` of a Node server in the cluster,
// with packages of conformance/cluster. worker: `fetchSockets` of a worker of all nodes, and Socket.IO's objects of the whole crowd in it.
// spin: no list at all; the program computes for as long as a list takes the others. The delay that this adds is the price of shared cores.
// SOCKEYE_BIN and SOCKEYE_BENCH_BIN name the programs, SDK the folder of @sockeye/server (built, with its packages); redis-server is in PATH.
// Prints the figures as JSON; ends with 1 if a list was wrong or a goal is missed.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { loadavg, setPriority, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const text = (value) => ({ type: "string", default: value });
const { values: options } = parseArgs({
  options: {
    clients: text("50000"), by: text("api,node,worker"), spin: text("250"), pause: text("1000"), rate: text("200"), seconds: text("20"), rounds: text("3"), nodes: text("4"), shards: text("2"),
    role: text("main"), scene: text("{}"),
  },
});
const number = (name) => Number(options[name]);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const [GATEWAY, BENCH] = [process.env.SOCKEYE_BIN ?? here("../target/production/sockeye"), process.env.SOCKEYE_BENCH_BIN ?? here("../target/production/sockeye-bench")];
const packages = (folder) => createRequire(join(resolve(folder), "package.json"));
const sdk = () => packages(process.env.SDK ?? here("../sdk/node"));
/** Connections of one process that holds a part of the crowd. */
const HELD_MAX = 17_000;
/** Members of the small room on each node. */
const MEMBERS = 2;
const GOALS = { added_ms: 5, bytes: 20 * 2 ** 20 };
const SAMPLE_MS = 250;
/** After the last publication of a time. */
const LATE_MS = 500;

// ---- parts in processes of their own: each line is a time with lists or without, and is answered by a line ------------------------

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

async function serve(scene, period) {
  say("ready");
  for await (const line of createInterface({ input: process.stdin })) say(await period(scene, JSON.parse(line)));
  process.exit(0);
}

/** How to ask for the crowd, and how many were found; -1: not all. */
const ways = {
  api({ nodes }) {
    let turn = 0;
    return async () => {
      const { admin, key } = nodes[turn++ % nodes.length];
      const answer = await fetch(`http://${admin}/v1/rooms/crowd/count`, { headers: { authorization: `Bearer ${key}` } });
      const { sockets, complete } = await answer.json();
      return complete ? sockets : -1;
    };
  },
  async node({ redis }) {
    const needs = packages(here("../conformance/cluster"));
    const [{ Server }, { createAdapter }, { createClient }] = [needs("socket.io"), needs("@socket.io/redis-adapter"), needs("redis")];
    const clients = [createClient({ url: redis }), createClient({ url: redis })];
    for (const client of clients) await client.connect();
    return of(new Server(0, { adapter: createAdapter(...clients) }));
  },
  async spin({ clients, spin }) {
    return async () => {
      for (const end = performance.now() + spin; performance.now() < end; );
      return clients;
    };
  },
  async worker({ nodes, key }) {
    const { Server } = sdk()("@sockeye/server");
    const io = new Server({ gateway: nodes.map(({ workers }) => workers), key, backend: "lists" });
    await io.ready;
    return of(io);
  },
};

const of = (io) => () => io.in("crowd").fetchSockets().then(({ length }) => length, (error) => (console.error(error.message), -1));

async function asker({ by, ...scene }) {
  // What it computes of a list is not what is measured.
  setPriority(10);
  const list = await ways[by](scene);
  return serve(scene, async (_, { seconds, lists, pause }) => {
    const end = performance.now() + seconds * 1_000;
    const [took, found] = [[], []];
    while (lists && performance.now() < end) {
      const began = performance.now();
      found.push(await list());
      took.push(performance.now() - began);
      await sleep(Math.max(0, began + pause - performance.now()));
    }
    return { took, found };
  });
}

/** A client in the small room; it hears all that is said there. */
function member({ url }, hear) {
  const { WebSocket } = sdk()("ws");
  return new Promise((done, fail) => {
    const socket = new WebSocket(`ws://${url}/socket.io/?EIO=4&transport=websocket`, { perMessageDeflate: false });
    socket.on("error", fail);
    socket.on("close", () => fail(new Error("a member was put out")));
    socket.on("message", (data) => {
      const packet = data.toString();
      if (packet === "2") socket.send("3");
      else if (packet.startsWith("0{")) socket.send("40");
      else if (packet.startsWith("40{")) socket.send('421["join","small"]');
      else if (packet.startsWith("431")) done(socket);
      else if (packet.startsWith("42")) hear(JSON.parse(packet.slice(2))[1]);
    });
  });
}

async function members(scene) {
  let delays = [];
  const room = [];
  for (const node of scene.nodes) for (let n = 0; n < MEMBERS; n++) room.push(await member(node, ({ at }) => delays.push(performance.now() - at)));
  return serve(scene, async (_, { seconds, rate }) => {
    delays = [];
    const began = performance.now();
    const due = () => Math.min(seconds, (performance.now() - began) / 1_000) * rate;
    let said = 0;
    for (; said < seconds * rate; await sleep(1)) {
      for (; said < due(); said++) room[said % room.length].send(`42["message",${JSON.stringify({ at: performance.now(), filler: "x".repeat(80) })}]`);
    }
    await sleep(LATE_MS);
    return { delays, missing: said * (room.length - 1) - delays.length };
  });
}

// ---- the scene ------------------------------------------------------------------------------------------------------------------

const children = new Set();

function start(program, args, stdio) {
  const child = spawn(program, args, { stdio });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

/** A process of this file in another role. */
async function part(role, scene) {
  const child = start(process.execPath, [fileURLToPath(import.meta.url), "--role", role, "--scene", JSON.stringify(scene)], ["pipe", "pipe", "inherit"]);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the process of the role ${role} ended`);
    return JSON.parse(value);
  };
  await next();
  return (line) => {
    child.stdin.write(`${JSON.stringify(line)}\n`);
    return next();
  };
}

async function until(what, is, seconds = 600) {
  for (let tries = 0; !(await is()); tries++) {
    if (tries > seconds * 2) throw new Error(`waited in vain: ${what}`);
    await sleep(500);
  }
}

async function redis(folder) {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address();
  await new Promise((done) => free.close(done));
  const child = start("redis-server", ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--dir", folder], ["ignore", "pipe", "ignore"]);
  for await (const line of createInterface({ input: child.stdout })) if (line.includes("Ready to accept connections")) break;
  child.stdout.resume();
  return `redis://127.0.0.1:${port}`;
}

async function node(folder, name, config, key) {
  const file = join(folder, `${name}.toml`);
  writeFileSync(file, config);
  const child = start(GATEWAY, ["--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"], ["ignore", "ignore", "pipe"]);
  for await (const line of createInterface({ input: child.stderr })) {
    if (!line.includes('"listening"')) continue;
    child.stderr.resume();
    const { addresses, admin, workers } = JSON.parse(line);
    return { pid: child.pid, url: addresses.split(",")[0], admin, workers, key };
  }
  throw new Error(`cannot start ${GATEWAY}: it ended`);
}

async function cluster(folder, by) {
  const [, key] = execFileSync(GATEWAY, ["api-key", "run"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).match(/(sockeye_\S+)/);
  const hashed = `api_keys = ["run:${createHash("sha256").update(key).digest("hex")}"]\n`;
  const url = await redis(folder);
  const config =
    `profile = "socket.io"\n[server]\nshards = ${options.shards}\n[log]\nformat = "json"\nconnections = false\n[limits]\nconns_max = ${HELD_MAX}\n[admission]\nturn_max = "0s"\n` +
    `[admin]\n${hashed}[cluster]\nadapter = "redis"\nurls = ["${url}"]\n[namespaces."/"]\nclient_joins = true\n` +
    (by === "worker" ? `backend = "lists"\n[workers]\nlisten = "127.0.0.1:0"\n[backends.lists]\n${hashed}` : "") +
    `[namespaces."/".events.message]\naction = "rooms"\n`;
  const nodes = await Promise.all(Array.from({ length: number("nodes") }, (_, at) => node(folder, `node-${at}`, config, key)));
  await until("all nodes know each other", async () => (await values(nodes, "sockeye_cluster_peers ")).every((peers) => peers === nodes.length - 1));
  return { nodes, redis: url, key, by, clients: number("clients"), spin: number("spin") };
}

/** The crowd comes, and stays. */
async function crowd(folder, { nodes }) {
  const all = number("clients");
  const processes = Math.ceil(all / HELD_MAX);
  for (let n = 0; n < processes; n++) {
    const count = Math.floor(all / processes) + (n < all % processes ? 1 : 0);
    const file = join(folder, `crowd-${n}.toml`);
    const phases = `[[phases]]\nname = "opening"\narrivals = "${Math.ceil(500 / processes)}/s"\nconnections = ${count}\nduration = "${Math.ceil(all / 100) + 10}s"\n`;
    writeFileSync(file, `name = "crowd"\nabout = "sockets of one room that say nothing"\nprotocol = "socket.io"\n${phases}[[phases]]\nname = "idle"\nduration = "10h"\n` +
      `[flows.user]\nsteps = [{ connect = true }, { join = "crowd" }, { loop = [{ think = "1m" }] }]\n`);
    start(BENCH, ["run", file, ...nodes.flatMap(({ url }) => ["--url", `http://${url}`])], "ignore").once("exit", (code) => code !== null && console.error(`a part of the crowd went: ${code}`));
  }
  const count = ways.api({ nodes });
  await until(`${all} sockets`, async () => (await count()) === all, all / 50 + 60);
}

// ---- figures --------------------------------------------------------------------------------------------------------------------

const page = async ({ admin, key }) => (await fetch(`http://${admin}/metrics`, { headers: { authorization: `Bearer ${key}` } })).text();
const summed = (page, name) => page.split("\n").filter((line) => line.startsWith(name)).reduce((sum, line) => sum + Number(line.split(" ")[1]), 0);
const values = async (nodes, name) => (await Promise.all(nodes.map(page))).map((page) => summed(page, name));
const memory = ({ pid }, name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) * 1024;
/** Turns of the gateways that took longer than each bound: what waits for one that has the core waits for so long. */
async function turns(nodes) {
  const all = {};
  for (const text of await Promise.all(nodes.map(page))) {
    for (const [, le, count] of text.matchAll(/^sockeye_turn_duration_seconds_bucket\{le="([^"]+)"\} (\d+)/gm)) all[le] = (all[le] ?? 0) + Number(count);
  }
  return Object.fromEntries(Object.entries(all).map(([le, count]) => [le, all["+Inf"] - count]));
}
/** Processor time, seconds. */
const cpu = ({ pid }) => readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ").slice(11, 13).reduce((sum, ticks) => sum + Number(ticks) / 100, 0);

function spread(all) {
  const sorted = all.toSorted((one, other) => one - other);
  const at = (share) => Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0) * 100) / 100;
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999), most: at(1) };
}

/** A time with lists or without. */
async function period({ nodes }, [asks, talk], lists) {
  const seconds = number("seconds");
  // From here on, the most that was resident is counted.
  for (const { pid } of nodes) writeFileSync(`/proc/${pid}/clear_refs`, "5");
  const [before, turned] = [nodes.map(cpu), await turns(nodes)];
  const parts = Promise.all([asks({ seconds, lists, pause: number("pause") }), talk({ seconds, rate: number("rate") })]);
  const kept = nodes.map(() => 0);
  for (const end = performance.now() + seconds * 1_000; performance.now() < end; await sleep(SAMPLE_MS)) {
    const now = await values(nodes, "sockeye_kept_bytes");
    now.forEach((bytes, at) => (kept[at] = Math.max(kept[at], bytes)));
  }
  const [asked, heard] = await parts;
  const used = nodes.reduce((sum, node, at) => sum + cpu(node) - before[at], 0);
  const longer = Object.fromEntries(Object.entries(await turns(nodes)).map(([le, count]) => [le, count - (turned[le] ?? 0)]));
  return { ...asked, ...heard, longer, kept, cpu: Math.round(used * 100) / 100, resident: nodes.map((node) => memory(node, "VmHWM")) };
}

async function measure(by) {
  const folder = mkdtempSync(join(tmpdir(), "lists-"));
  try {
    const scene = await cluster(folder, by);
    const parts = [await part("asker", scene), await part("members", scene)];
    await crowd(folder, scene);
    await sleep(5_000);
    const resident = scene.nodes.map((node) => memory(node, "VmRSS"));
    const times = { without: [], lists: [] };
    for (let round = 0; round < number("rounds"); round++) {
      times.without.push(await period(scene, parts, false));
      times.lists.push(await period(scene, parts, true));
      console.error(`${by} ${round + 1}: ${JSON.stringify({ without: spread(times.without.at(-1).delays), lists: spread(times.lists.at(-1).delays) })}; load ${loadavg()[0].toFixed(1)}`);
    }
    const [without, lists] = [times.without, times.lists];
    const most = (times, name) => scene.nodes.map((_, at) => Math.max(...times.map((time) => time[name][at])));
    const grew = (times) => most(times, "resident").map((bytes, at) => bytes - resident[at]);
    const delays = { without: spread(without.flatMap(({ delays }) => delays)), lists: spread(lists.flatMap(({ delays }) => delays)) };
    return {
      by,
      lists: lists.reduce((sum, { took }) => sum + took.length, 0),
      list_ms: spread(lists.flatMap(({ took }) => took)),
      wrong: lists.flatMap(({ found }) => found).filter((count) => count !== number("clients")),
      missing: [...without, ...lists].reduce((sum, { missing }) => sum + missing, 0),
      delays_ms: delays,
      added_ms: Object.fromEntries(Object.keys(delays.lists).map((name) => [name, Math.round((delays.lists[name] - delays.without[name]) * 100) / 100])),
      turns_longer_than_s: Object.fromEntries(Object.entries(times).map(([name, all]) => [name, all.map(({ longer }) => longer)])),
      kept_bytes: most(lists, "kept"),
      resident_grew_bytes: { without: grew(without), lists: grew(lists) },
      cpu_s: { without: without.map(({ cpu }) => cpu), lists: lists.map(({ cpu }) => cpu) },
      load: loadavg(),
    };
  } finally {
    for (const child of children) child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
}

function missed({ by, lists, wrong, missing, added_ms, kept_bytes, resident_grew_bytes }) {
  const goals = {
    "no list was made": lists === 0,
    [`${wrong.length} lists are not whole`]: wrong.length > 0,
    [`${missing} publications were not heard`]: missing !== 0,
    [`publications are later by ${added_ms.p99} ms (p99)`]: added_ms.p99 > GOALS.added_ms,
    [`${Math.max(...kept_bytes)} bytes are kept`]: Math.max(...kept_bytes) >= GOALS.bytes,
    [`a node grew by ${Math.max(...resident_grew_bytes.lists)} bytes`]: Math.max(...resident_grew_bytes.lists) >= GOALS.bytes,
  };
  return Object.entries(goals).filter(([, is]) => is).map(([goal]) => `${by}: ${goal}`);
}

if (options.role === "asker") await asker(JSON.parse(options.scene));
else if (options.role === "members") await members(JSON.parse(options.scene));
else {
  const results = [];
  for (const by of options.by.split(",")) results.push(await measure(by));
  const goals = results.flatMap(missed);
  console.log(JSON.stringify({ clients: number("clients"), nodes: number("nodes"), rate: number("rate"), pause: number("pause"), results, missed: goals }, null, 1));
  process.exit(goals.length > 0 ? 1 : 0);
}
