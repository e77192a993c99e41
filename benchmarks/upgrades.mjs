// What clients notice of `sockeye upgrade`: two nodes with workers and a Redis, stock clients in JavaScript, Python and Java, of which a third polls,
// and the load generator, all with paced traffic, through upgrades of the one node and the other in turn. Counts what is lost, comes twice or out of order, and who is cut off.
// With --idle N: so many idle sessions over as many gateways as descriptors need; each is upgraded once while all are open.
// node upgrades.mjs [--clients 400] [--python 100] [--java 100] [--load 5000] [--nodes 2] [--upgrades 20] [--pause 3]   or   node upgrades.mjs --idle 100000 [--each 17000]
// With --journal MIB, --away N, or both: one gateway with so much kept for clients that may come back, in events of --entry bytes, and so many sockets
// without a connection. It is upgraded --upgrades times while 100 clients talk; what it keeps must be the same behind each upgrade.
// node upgrades.mjs --journal 256 [--entry 1000] [--upgrades 5]   or   node upgrades.mjs --away 100000 [--each 17000] [--upgrades 5]
// OTHER names another build: nodes are upgraded to it, all in turn, then back, and so on.
// SOCKEYE_BIN and SOCKEYE_BENCH_BIN name the programs, SDK the folder of @sockeye/server (built, with its packages); redis-server is in PATH.
// Clients in Python and Java need what conformance/run.sh installs; --python 0 --java 0 does without.
// Prints the figures as JSON; ends with 1 if anything was lost, came twice or out of order, or somebody was cut off.
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { freePort } from "../conformance/ports.mjs";

const text = (value) => ({ type: "string", default: value });
const { values: options } = parseArgs({
  options: {
    clients: text("400"), python: text("100"), java: text("100"), load: text("5000"), nodes: text("2"), upgrades: text("20"), pause: text("3"), idle: text("0"), each: text("17000"), journal: text("0"), entry: text("1000"), away: text("0"),
    role: text("main"), urls: text(""), worker: text(""), key: text(""),
  },
});
const number = (name) => Number(options[name]);
/** Clients that hear each other. */
const ROOM = 10;
/** Each client says something this often. */
const PACE_MS = 6_000;
const run = promisify(execFile);
const needs = () => createRequire(join(resolve(process.env.SDK), "package.json"));

// ---- parts in processes of their own --------------------------------------------------------------------------------------------

async function worker() {
  const { Server } = needs()("@sockeye/server");
  const io = new Server({ gateway: options.worker, key: options.key, backend: "kitchen" });
  io.of("/shop").on("connection", (socket) => socket.on("count", (n, done) => done(n)));
  await io.ready;
  console.log("ready");
}

/** A stock client: it says numbers to its room, and asks a worker. */
class Client {
  heard = new Map();
  said = 0;
  asked = 0;
  answered = 0;
  unanswered = 0;
  cuts = 0;
  lost = 0;
  twice = 0;
  disordered = 0;
  delays = [];
  constructor(io, url, at) {
    this.at = at;
    const transports = [at % 3 === 0 ? "polling" : "websocket"];
    this.room = `room-${Math.floor(at / ROOM)}`;
    this.main = io(url, { transports, forceNew: true });
    this.shop = this.main.io.socket("/shop");
    this.shop.connect();
    this.main.on("disconnect", () => (this.cuts += 1));
    this.shop.on("disconnect", () => (this.cuts += 1));
    this.main.on("n", ({ from, n }) => this.hear(from, n));
  }
  async ready() {
    while (!this.main.connected || !this.shop.connected) await sleep(50);
    await this.main.emitWithAck("join", this.room);
  }
  hear(from, n) {
    const next = this.heard.get(from) ?? 0;
    if (n === next) this.heard.set(from, n + 1);
    else if (n > next) {
      this.lost += n - next;
      this.heard.set(from, n + 1);
    } else this.twice += 1;
  }
  async speak() {
    this.main.emit("n", { from: this.at, n: this.said++ });
    const began = Date.now();
    const n = this.asked++;
    try {
      const back = await this.shop.timeout(30_000).emitWithAck("count", n);
      this.answered += 1;
      if (back !== n) this.disordered += 1;
      this.delays.push([began, Date.now() - began]);
    } catch {
      this.unanswered += 1;
    }
  }
}

async function crowd() {
  const { io } = needs()("socket.io-client");
  const urls = options.urls.split(",");
  const count = number("clients");
  const clients = [];
  for (let at = 0; at < count; at++) {
    clients.push(new Client(io, urls[at % urls.length], at));
    if (at % 20 === 19) await sleep(100);
  }
  await Promise.all(clients.map((client) => client.ready()));
  console.log("ready");
  let speaks = true;
  process.once("SIGTERM", () => (speaks = false));
  const talks = clients.map(async (client, at) => {
    await sleep((at * PACE_MS) / count);
    while (speaks) {
      const next = Date.now() + PACE_MS;
      await client.speak();
      while (speaks && Date.now() < next) await sleep(Math.min(500, Math.max(1, next - Date.now())));
    }
  });
  await Promise.all(talks);
  await sleep(5_000);
  // What nobody has heard by now is lost.
  for (const client of clients) {
    const others = clients.filter((other) => other !== client && other.room === client.room);
    for (const other of others) client.lost += other.said - (client.heard.get(other.at) ?? 0);
  }
  const sum = (name) => clients.reduce((all, client) => all + client[name], 0);
  const names = ["said", "asked", "answered", "unanswered", "cuts", "lost", "twice", "disordered"];
  const figures = Object.fromEntries(names.map((name) => [name, sum(name)]));
  console.log(JSON.stringify({ ...figures, delays: clients.flatMap((client) => client.delays) }));
  process.exit(0);
}

// ---- the scene ------------------------------------------------------------------------------------------------------------------

const folder = options.role === "main" ? mkdtempSync(join(tmpdir(), "upgrades-")) : "";
const children = new Set();

function start(program, args, stdio) {
  const child = spawn(program, args, { stdio });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

/** A process of this file in another role; the lines that it says. */
const part = (role, ...more) => listen(process.execPath, [fileURLToPath(import.meta.url), "--role", role, ...more]);

function listen(program, args) {
  const child = start(program, args, ["pipe", "pipe", "inherit"]);
  let said = "";
  child.stdout.on("data", (more) => (said += more));
  child.lines = () => said.split("\n").filter(Boolean);
  return child;
}

async function until(what, is, seconds = 180) {
  for (let tries = 0; !(await is()); tries++) {
    if (tries > seconds * 10) throw new Error(`waited in vain: ${what}`);
    await sleep(100);
  }
}

class Node {
  static async open(name, more) {
    const node = new Node();
    [node.port, node.admin] = [await freePort(), await freePort()];
    node.config = join(folder, `${name}.toml`);
    writeFileSync(
      node.config,
      `profile = "socket.io"\n[server]\nshards = 2\nlisten = ["127.0.0.1:${node.port}"]\nadmin = "127.0.0.1:${node.admin}"\n` +
        `[log]\nlevel = "warn"\nconnections = false\n[upgrade]\nsocket = ${JSON.stringify(join(folder, `${name}.sock`))}\n${more}`,
    );
    node.url = `http://127.0.0.1:${node.port}`;
    start(process.env.SOCKEYE_BIN, ["serve", "--config", node.config], ["ignore", "ignore", "inherit"]);
    await until(`${name} serves`, () => fetch(`${node.url}/ready`).then((answer) => answer.ok, () => false));
    return node;
  }
  async metric(name) {
    const ask = () => fetch(`http://127.0.0.1:${this.admin}/metrics`);
    // A connection that was left open may lead to the process that handed over.
    const page = await (await ask().catch(ask)).text();
    const line = page.split("\n").find((line) => line.startsWith(`${name} `));
    return Number(line?.split(" ")[1] ?? 0);
  }
  /** The processor time of the gateways of one upgrade is not told: others compute beside them. */
  async upgrade(build = process.env.SOCKEYE_BIN) {
    const began = Date.now();
    const { stdout } = await run(build, ["upgrade", "--config", this.config]);
    const took = Date.now() - began;
    const pid = Number(stdout.match(/ as process (\d+)/)?.[1]);
    pids.add(pid);
    const away = [...stdout.matchAll(/(\d+) sessions are sent away/g)].reduce((sum, found) => sum + Number(found[1]), 0);
    return { began, took, still: Number(stdout.match(/for (\d+) ms/)?.[1]), sessions: Number(stdout.match(/serves (\d+) sessions/)?.[1]), away };
  }
}
const pids = new Set();

/** The load generator; its verdict when it has ended. */
function load(name, scenario, urls) {
  const [file, result] = [join(folder, `${name}.scenario.toml`), join(folder, `${name}.json`)];
  writeFileSync(file, scenario);
  const args = ["run", file, ...urls.flatMap((url) => ["--url", url]), "--json", result];
  const child = start(process.env.SOCKEYE_BENCH_BIN, args, ["ignore", "pipe", "inherit"]);
  let said = "";
  child.stdout.on("data", (more) => (said += more));
  child.result = async () => {
    if (child.exitCode === null) await once(child, "exit");
    return { code: child.exitCode, said, figures: JSON.parse(readFileSync(result, "utf8")) };
  };
  return child;
}

function share(delays, permille) {
  const sorted = delays.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * permille) / 1000))];
}

const spread = (all) => ({ p50: share(all, 500), p99: share(all, 990), most: share(all, 1000) });

/** Crowds of stock clients by language, once all are in their rooms. */
async function stockClients(urls) {
  const conformance = fileURLToPath(new URL("../conformance", import.meta.url));
  const here = fileURLToPath(new URL("crowds", import.meta.url));
  const list = urls.join(",");
  const ways = {
    js: () => part("crowd", "--urls", list, "--clients", options.clients),
    python: () => listen(join(conformance, "python/.venv/bin/python"), [join(here, "crowd.py"), "--urls", list, "--clients", options.python]),
    java: () => listen("java", ["-cp", join(conformance, "java/target/dependency/*"), join(here, "Crowd.java"), list, options.java]),
  };
  const counts = { js: number("clients"), python: number("python"), java: number("java") };
  const crowds = {};
  for (const [language, begin] of Object.entries(ways)) {
    if (counts[language] === 0) continue;
    const crowd = begin();
    await until(`clients in ${language}`, () => {
      if (crowd.exitCode !== null) throw new Error(`the clients in ${language} ended with ${crowd.exitCode}`);
      return crowd.lines().includes("ready");
    }, 300);
    crowds[language] = crowd;
  }
  return crowds;
}

async function busy() {
  const redis = await freePort();
  start("redis-server", ["--port", String(redis), "--save", ""], "ignore");
  await sleep(500);
  const { stdout } = await run(process.env.SOCKEYE_BIN, ["api-key", "cook"]);
  const [, key] = stdout.match(/(sockeye_\S+)/);
  const digest = createHash("sha256").update(key).digest("hex");
  const nodes = [];
  for (let at = 0; at < number("nodes"); at++) {
    const name = `node-${at}`;
    const workers = await freePort();
    const node = await Node.open(
      name,
      `[cluster]\nadapter = "redis"\nurls = ["redis://127.0.0.1:${redis}"]\nsecret = "s"\n[workers]\nlisten = "127.0.0.1:${workers}"\n` +
        `[backends.kitchen]\napi_keys = ["cook:${digest}"]\n[namespaces."/"]\nclient_joins = true\nevents.n.action = "rooms"\n` +
        `events.message.action = "rooms"\nevents.message.echo = true\n[namespaces."/shop"]\nbackend = "kitchen"\n`,
    );
    for (let n = 0; n < 2; n++) {
      const one = part("worker", "--worker", `127.0.0.1:${workers}`, "--key", key);
      await until("a worker", () => one.lines().includes("ready"));
    }
    nodes.push(node);
  }
  const urls = nodes.map((node) => node.url);
  const seconds = Math.ceil(number("upgrades") * (number("pause") + 1.5)) + 60;
  const crowds = await stockClients(urls);
  const generator = load(
    "load",
    `name = "paced"\nabout = "paced traffic in rooms of ten"\nprotocol = "socket.io"\n[variables]\nroom = "load-\${user / 10}"\n` +
      `[payloads.said]\nsize = "130B"\n[[phases]]\nname = "opening"\narrivals = "250/s"\nconnections = ${options.load}\nduration = "${Math.ceil(number("load") / 250) + 5}s"\n` +
      `[[phases]]\nname = "paced"\nduration = "${seconds}s"\nrate = "250/s"\n[flows.user]\nsteps = [\n  { connect = true },\n  { join = "\${room}" },\n` +
      `  { wait = "paced" },\n  { loop = [{ emit = "message", payload = "said", to = "\${room}", echo = true }], pace = "phase" },\n]\n`,
    urls,
  );
  const all = number("load") + number("clients") + number("python") + number("java");
  const sessions = async () => (await Promise.all(nodes.map((node) => node.metric("sockeye_sessions")))).reduce((sum, one) => sum + one, 0);
  await until("the load", async () => generator.exitCode !== null || (await sessions()) >= all * 0.99, 300);
  await sleep(8_000);
  const upgrades = [];
  for (let n = 0; n < number("upgrades"); n++) {
    const builds = [process.env.OTHER ?? process.env.SOCKEYE_BIN, process.env.SOCKEYE_BIN];
    const done = await nodes[n % nodes.length].upgrade(builds[Math.floor(n / nodes.length) % 2]);
    console.error(`upgrade ${n + 1}: ${JSON.stringify(done)}; load ${loadavg()[0].toFixed(1)}`);
    upgrades.push(done);
    await sleep(number("pause") * 1_000);
  }
  await sleep(3_000);
  const stock = {};
  const delays = [];
  for (const [language, crowd] of Object.entries(crowds)) {
    // Java has no handler of signals: it ends on a word.
    crowd.stdin.end("over\n");
    crowd.kill(language === "java" ? 0 : "SIGTERM");
  }
  for (const [language, crowd] of Object.entries(crowds)) {
    if (crowd.exitCode === null) await once(crowd, "exit");
    const { delays: more, ...counts } = JSON.parse(crowd.lines().at(-1));
    stock[language] = counts;
    delays.push(...more);
  }
  const around = delays.filter(([at, delay]) => upgrades.some(({ began, took }) => at <= began + took && at + delay >= began));
  const bench = await generator.result();
  const figures = {
    stock,
    answers_ms: spread(delays.map(([, delay]) => delay)),
    answers_around_upgrades_ms: { ...spread(around.map(([, delay]) => delay)), count: around.length },
    upgrades: upgrades.length,
    stood_still_ms: spread(upgrades.map(({ still }) => still)),
    command_ms: spread(upgrades.map(({ took }) => took)),
    sessions: [upgrades[0].sessions, upgrades.at(-1).sessions],
    sent_away: upgrades.reduce((sum, { away }) => sum + away, 0),
    generator: { code: bench.code, said: bench.said },
    load: loadavg(),
  };
  console.log(JSON.stringify(figures, null, 1));
  const faults = Object.values(stock).reduce((sum, one) => sum + one.lost + one.twice + one.disordered + one.unanswered + one.cuts, 0);
  return faults === 0 && [0, 3].includes(bench.code);
}

/** On a busy machine connections come later than they are due: who has not come when the phase ends never comes. */
const silent = (count, seconds) =>
  `name = "idle"\nabout = "sessions that say nothing"\nprotocol = "socket.io"\n[[phases]]\nname = "opening"\narrivals = "1000/s"\nconnections = ${count}\nduration = "${Math.ceil(count / 200) + 5}s"\n` +
  `[[phases]]\nname = "idle"\nduration = "${seconds}s"\n[flows.user]\nsteps = [{ connect = true }, { loop = [{ think = "1m" }] }]\n`;

/** Clients in pairs: what one says is kept for both. They go on at a quieter pace. */
const talking = (fillSeconds, bytes) =>
  `name = "talking"\nabout = "pairs that talk"\nprotocol = "socket.io"\n[variables]\nroom = "pair-\${user / 2}"\n[payloads.said]\nsize = "${bytes}B"\n` +
  `[[phases]]\nname = "opening"\narrivals = "100/s"\nconnections = 100\nduration = "5s"\n` +
  (fillSeconds > 0 ? `[[phases]]\nname = "filling"\nduration = "${fillSeconds}s"\nrate = "4000/s"\n` : "") +
  `[[phases]]\nname = "paced"\nduration = "600s"\nrate = "250/s"\n[flows.user]\nsteps = [\n  { connect = true },\n  { join = "\${room}" },\n` +
  `  { wait = "${fillSeconds > 0 ? "filling" : "paced"}" },\n  { loop = [{ emit = "message", payload = "said", to = "\${room}", echo = true }], pace = "phase" },\n]\n`;

async function kept() {
  const [journal, away, each] = [number("journal") * 2 ** 20, number("away"), number("each")];
  const node = await Node.open(
    "kept",
    `[limits]\nconns_max = 20000\nparked_sockets_max = ${2 * away + 1_000}\njournal_bytes_max = "${Math.max(number("journal"), 256)}MiB"\n[admission]\nturn_max = "0s"\n` +
      `[namespaces."/"]\nclient_joins = true\nevents.message.action = "rooms"\nevents.message.echo = true\n[namespaces."/".recovery]\nlevel = "node"\nwindow = "30m"\n`,
  );
  const keeps = async () => ({ journal: await node.metric("sockeye_journal_bytes"), away: await node.metric("sockeye_parked_sockets") });
  for (let left = away, n = 0; left > 0; left -= each, n++) {
    const count = Math.min(each, left);
    const before = (await keeps()).away;
    const crowd = load(`away-${n}`, silent(count, 600), [node.url]);
    await until(`${count} sessions`, async () => (await node.metric("sockeye_sessions")) >= count, 240);
    // They are gone without a word.
    crowd.kill("SIGKILL");
    await until(`${count} are away`, async () => (await keeps()).away >= before + count);
    console.error(JSON.stringify(await keeps()));
  }
  // An event stands in the journals of one shard or of both.
  const filling = journal > 0 ? Math.ceil(journal / (4_000 * number("entry"))) + 10 : 0;
  const talk = load("talking", talking(filling, number("entry")), [node.url]);
  await until("a full journal", async () => talk.exitCode !== null || (await keeps()).journal >= journal * 0.97, 600);
  // The quieter pace, and its first events.
  await sleep(15_000);
  const upgrades = [];
  for (let n = 0; n < number("upgrades"); n++) {
    const before = await keeps();
    const done = await node.upgrade();
    upgrades.push({ ...done, before, after: await keeps() });
    console.error(`${JSON.stringify(upgrades.at(-1))}; load ${loadavg()[0].toFixed(1)}`);
    await sleep(number("pause") * 1_000);
  }
  talk.kill("SIGINT");
  const figures = upgrades.map(({ took, still, sessions, before, after }) => ({ took_ms: took, still_ms: still, sessions, before, after }));
  const stood = spread(upgrades.map(({ still }) => still));
  console.log(JSON.stringify({ upgrades: figures, stood_still_ms: stood, load: loadavg() }, null, 1));
  return upgrades.every(({ before, after }) => after.away === before.away && after.journal >= before.journal * 0.97);
}

async function idle() {
  const each = number("each");
  const gateways = Math.ceil(number("idle") / each);
  const [nodes, loads] = [[], []];
  let left = number("idle");
  for (let n = 0; n < gateways; n++) {
    const count = Math.min(each, left);
    left -= count;
    const node = await Node.open(`idle-${n}`, `[limits]\nconns_max = 20000\n[admission]\nturn_max = "0s"\n`);
    loads.push(load(`idle-${n}`, silent(count, gateways * 60 + 60), [node.url]));
    await until(`${count} sessions`, async () => (await node.metric("sockeye_sessions")) >= count, 240);
    nodes.push(node);
    console.error(`${count} sessions at gateway ${n + 1}; load ${loadavg()[0].toFixed(1)}`);
  }
  const upgrades = [];
  for (const node of nodes) {
    const done = await node.upgrade();
    upgrades.push({ ...done, after: await node.metric("sockeye_sessions") });
    console.error(JSON.stringify(upgrades.at(-1)));
  }
  await sleep(30_000);
  const kept = await Promise.all(nodes.map((node) => node.metric("sockeye_sessions")));
  for (const one of loads) one.kill("SIGINT");
  console.log(JSON.stringify({ upgrades: upgrades.map(({ took, still, sessions, away }) => ({ took_ms: took, still_ms: still, sessions, away })), sessions_30_s_later: kept, load: loadavg() }, null, 1));
  return upgrades.every(({ sessions }, n) => kept[n] >= sessions);
}

if (options.role === "worker") await worker();
else if (options.role === "crowd") await crowd();
else {
  try {
    const keeps = number("journal") + number("away") > 0;
    process.exitCode = (await (keeps ? kept() : number("idle") > 0 ? idle() : busy())) ? 0 : 1;
  } finally {
    for (const child of children) child.kill("SIGKILL");
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended.
      }
    }
    rmSync(folder, { recursive: true, force: true });
  }
}
