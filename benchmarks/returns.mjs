// What clients miss that lose their connection and come back to whichever node a balancer gives them: three nodes of two shards, a Redis, stock
// clients behind a proxy that cuts them, and a publisher that counts. Then raw clients that are all away, and all come back at once: `--crowd` in
// this process, which may have 20,000 files, or `--raw` in as many processes as it takes.
// With --kill a node is killed each minute, and started anew (recovery of level `cluster`); then there is no second part.
// node returns.mjs [--kill] [--clients 500] [--minutes 10] [--rate 500] [--crowd 5000 | --raw 40000] [--away 120] [--stay 200] [--ping 3s]
// SOCKEYE_BIN names the program, SDK a folder with socket.io-client among its packages. Prints the figures, and fails if anything was lost, twice, out of order or wrong.
import { execFileSync, spawn } from "node:child_process";
import { createHmac, randomBytes, createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { freePort } from "../conformance/ports.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const text = (value) => ({ type: "string", default: value });
const { values: options } = parseArgs({
  options: {
    clients: text("500"), minutes: text("10"), rate: text("500"), crowd: text("5000"), away: text("120"), stay: text("200"),
    raw: text("0"), ping: text("3s"), parts: text("1"), hosts: text(""),
    kill: { type: "boolean", default: false }, role: text("main"), url: text(""), from: text("0"), count: text("0"),
  },
});
const number = (name) => Number(options[name]);
const NODES = 3;
const CUT_AFTER_MS = [5_000, 60_000];
const PROXY_RESTARTS_MS = 60_000;
const KILLS_MS = 60_000;
/** A node is away for so long. */
const DEAD_MS = 3_000;
/** Members of a room, sockets of a user. */
const MEMBERS = 10;
const MISSED = 20;
/** Raw clients of one process. */
const RAW_EACH = 19_000;
/** So many raw clients of all processes come at a time, and come back. */
const WIDTH = { open: 100, back: 500 };
const SECRET = "a secret of this run alone, and of nobody else";
const children = [];

function token(uid) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const body = `${part({ alg: "HS256", typ: "JWT" })}.${part({ sub: uid, exp: Math.floor(Date.now() / 1000) + 36_000 })}`;
  return `${body}.${createHmac("sha256", SECRET).update(body).digest("base64url")}`;
}

// ---- stock clients ------------------------------------------------------------------------------------------------------------

/** What one client got of each of its keys: numbers without a gap. */
class Ledger {
  keys = new Map();
  lost = 0;
  twice = 0;
  disordered = 0;
  /** Its client is somebody new, and knows it: nothing is promised any more. */
  isOver = false;

  /** Missing numbers are lost unless they come later: then they are out of order. */
  take(key, n) {
    if (this.isOver) return;
    const own = this.keys.get(key) ?? { next: 0, open: new Set() };
    this.keys.set(key, own);
    if (n >= own.next) {
      for (let at = own.next; at < n; at++) own.open.add(at);
      own.next = n + 1;
    } else if (own.open.delete(n)) this.disordered++;
    else this.twice++;
  }

  /** `doubtful`: whoever said it was told nothing: it may have come or not. */
  close(published, doubtful) {
    if (this.isOver) return;
    for (const [key, count] of published) {
      const own = this.keys.get(key) ?? { next: 0, open: new Set() };
      for (let n = own.next; n < count; n++) own.open.add(n);
      for (const n of own.open) if (!doubtful.has(`${key} ${n}`)) this.lost++;
    }
  }
}

const keysOf = (client) => [`room r${Math.floor(client / MEMBERS)}`, `user u${client % Math.ceil(number("clients") / MEMBERS)}`, `socket ${client}`];

async function stock() {
  const { io } = createRequire(join(process.env.SDK ?? here("../sdk/node"), "package.json"))("socket.io-client");
  const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
  const totals = { recovered: 0, fresh: 0, received: 0 };
  const clients = Array.from({ length: number("count") }, (_, at) => {
    const client = number("from") + at;
    const ledger = new Ledger();
    const user = keysOf(client)[1].slice(5);
    const socket = io(options.url, { transports: ["websocket"], forceNew: true, auth: { token: token(user) }, reconnectionDelay: 200, reconnectionDelayMax: 1_000 });
    let before;
    socket.on("connect", () => {
      if (before === undefined) {
        before = socket.id;
        return socket.emit("join", keysOf(client)[0].slice(5), () => say({ client, socket: socket.id }));
      }
      totals[socket.recovered ? "recovered" : "fresh"]++;
      if (socket.recovered && socket.id === before) return;
      ledger.isOver = true;
      say({ another: client });
    });
    socket.on("m", ({ k, n }) => {
      totals.received++;
      ledger.take(k, n);
    });
    return { client, ledger, socket };
  });
  for await (const line of createInterface({ input: process.stdin })) {
    const said = JSON.parse(line);
    const [published, doubtful] = [new Map(said.published), new Set(said.doubtful)];
    for (const { client, ledger } of clients) ledger.close(keysOf(client).map((key) => [key, published.get(key) ?? 0]), doubtful);
    const sum = (name) => clients.reduce((sum, { ledger }) => sum + ledger[name], 0);
    const bad = clients.filter(({ ledger }) => ledger.lost + ledger.twice + ledger.disordered > 0).map(({ client }) => client);
    say({ ...totals, lost: sum("lost"), twice: sum("twice"), disordered: sum("disordered"), connected: clients.filter(({ socket }) => socket.connected).length, bad });
    clients.forEach(({ socket }) => socket.disconnect());
    break;
  }
  process.exit(0);
}

// ---- nodes --------------------------------------------------------------------------------------------------------------------

function start(program, args, stdio) {
  const child = spawn(program, args, { stdio });
  children.push(child);
  return child;
}

async function redis(folder) {
  const port = await freePort();
  const child = start("redis-server", ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--dir", folder], ["ignore", "pipe", "ignore"]);
  for await (const line of createInterface({ input: child.stdout })) if (line.includes("Ready to accept connections")) break;
  child.stdout.resume();
  return `redis://127.0.0.1:${port}`;
}

async function nodes(folder) {
  const program = process.env.SOCKEYE_BIN ?? here("../target/release/sockeye");
  const [, key] = execFileSync(program, ["api-key", "run"], { encoding: "utf8" }).match(/(sockeye_\S+)/);
  const file = join(folder, "sockeye.toml");
  writeFileSync(
    file,
    `profile = "socket.io"\n[server]\nshards = 2\n[socketio]\nping_interval = "${options.ping}"\nping_timeout = "2s"\n[auth]\nsecret = "${SECRET}"\nstyle = "strict"\n` +
      `[log]\nformat = "json"\n[admin]\napi_rate = "100000/s"\napi_keys = ["run:${createHash("sha256").update(key).digest("hex")}"]\n[cluster]\nadapter = "redis"\n` +
      `urls = ["${await redis(folder)}"]\nsecret = "of this run"\n[namespaces."/"]\nclient_joins = true\n[namespaces."/".recovery]\nlevel = "${options.kill ? "cluster" : "node"}"\nwindow = "5m"\n`,
  );
  const one = async () => {
    const child = start(program, ["--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"], ["ignore", "ignore", "pipe"]);
    for await (const line of createInterface({ input: child.stderr })) {
      if (!line.includes('"listening"')) continue;
      child.stderr.resume();
      const { addresses, admin } = JSON.parse(line);
      return { child, pid: child.pid, host: addresses.split(",")[0], admin, key, again: one };
    }
    throw new Error(`cannot start ${program}: it ended`);
  };
  return Promise.all(Array.from({ length: NODES }, one));
}

/** Kills a node, and starts another in its place. */
async function kill(all, at, proxy) {
  const dead = all[at];
  all[at] = undefined;
  process.kill(dead.pid, "SIGKILL");
  await sleep(DEAD_MS);
  const next = await dead.again();
  proxy.hosts[at] = next.host;
  all[at] = next;
}

const agent = new Agent({ keepAlive: true, maxSockets: 8 });

function call(node, method, path, body) {
  const [hostname, port] = node.admin.split(":");
  const headers = { authorization: `Bearer ${node.key}`, "content-type": "application/json" };
  return new Promise((done, fail) => {
    const asked = request({ agent, hostname, port, method, path, headers }, async (answer) => {
      const parts = [];
      for await (const part of answer) parts.push(part);
      const said = Buffer.concat(parts).toString();
      answer.statusCode < 300 ? done(said) : fail(new Error(`${method} ${path}: ${answer.statusCode} ${said}`));
    });
    asked.on("error", fail);
    asked.end(body && JSON.stringify(body));
  });
}

async function metrics(all, name) {
  const sums = new Map();
  for (const node of all.filter(Boolean)) {
    for (const line of (await call(node, "GET", "/metrics")).split("\n")) {
      const [key, value] = line.split(" ");
      if (key.startsWith(name)) sums.set(key, (sums.get(key) ?? 0) + Number(value));
    }
  }
  return Object.fromEntries([...sums].filter(([, value]) => value > 0));
}

/** Processor time of processes, seconds. */
const cpu = (pids) => pids.filter((pid) => existsSync(`/proc/${pid}`)).reduce((sum, pid) => {
  const words = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return sum + (Number(words[11]) + Number(words[12])) / 100;
}, 0);

// ---- a proxy that cuts --------------------------------------------------------------------------------------------------------

class Proxy {
  open = new Set();
  cuts = { reset: 0, silence: 0, end: 0, restart: 0 };
  next = 0;
  cutting = false;

  constructor(hosts) {
    this.hosts = hosts;
    this.server = createServer((near) => this.take(near));
  }

  async listen(port) {
    this.server.listen(port, "127.0.0.1", 4096);
    await once(this.server, "listening");
    return this.server.address().port;
  }

  take(near) {
    const [host, port] = this.hosts[this.next++ % this.hosts.length].split(":");
    const far = connect(Number(port), host);
    const pair = { near, far, over: false };
    this.open.add(pair);
    for (const [end, other] of [[near, far], [far, near]]) {
      end.setNoDelay(true);
      end.on("data", (bytes) => pair.silent || other.write(bytes));
      end.on("end", () => pair.silent || other.end());
      end.on("error", () => other.destroy());
      end.on("close", () => {
        if (!pair.silent) other.destroy();
        clearTimeout(pair.timer);
        if (near.destroyed && far.destroyed) this.open.delete(pair);
      });
    }
    const [least, most] = CUT_AFTER_MS;
    pair.timer = setTimeout(() => this.cutting && this.cut(pair), least + Math.random() * (most - least));
  }

  cut(pair) {
    const kind = ["reset", "silence", "end"][Math.floor(Math.random() * 3)];
    this.cuts[kind]++;
    const both = [pair.near, pair.far];
    if (kind === "reset") return both.forEach((end) => end.resetAndDestroy());
    if (kind === "end") return both.forEach((end) => end.end());
    // No packet either way, and neither end is told.
    pair.silent = true;
    setTimeout(() => both.forEach((end) => end.destroy()), 30_000).unref();
  }

  async restart(port) {
    this.cuts.restart += this.open.size;
    const closed = new Promise((done) => this.server.close(done));
    for (const { near, far } of this.open) [near, far].forEach((end) => end.resetAndDestroy());
    await closed;
    await sleep(500);
    await this.listen(port);
  }
}

// ---- the first part -----------------------------------------------------------------------------------------------------------

async function crowd(url, count, processes = 4) {
  const share = Math.ceil(count / processes);
  const sockets = new Map();
  const fresh = [];
  const reports = [];
  const lines = [];
  for (let from = 0; from < count; from += share) {
    const args = [fileURLToPath(import.meta.url), "--role", "stock", "--url", url, "--from", `${from}`, "--count", `${Math.min(share, count - from)}`, "--clients", `${count}`];
    const child = start(process.execPath, args, ["pipe", "pipe", "inherit"]);
    createInterface({ input: child.stdout }).on("line", (line) => {
      const said = JSON.parse(line);
      if (said.socket) sockets.set(said.client, said.socket);
      else if (said.another !== undefined) fresh.push(said.another);
      else reports.push(said);
    });
    lines.push(child);
  }
  return { sockets, fresh, reports, lines };
}

/** Calls that wait for their answer. */
const CALLS_MAX = 256;

/**
 * Tells rooms, users and sockets in turn, each key by one node and one call at a time: so its events have one order. What is due is counted by the clock, and no
 * call waits for one of another key: a slow answer makes nothing late but what comes behind it. How often `CALLS_MAX` were under way is told: then the nodes
 * or this process were too slow for the rate.
 */
class Publisher {
  /** So many events of each key. */
  published = new Map();
  /** Those of which the caller was told nothing. */
  doubtful = new Set();
  errors = {};
  full = 0;
  #lanes = new Map();
  #underWay = 0;
  #failure;

  constructor(all, clients, sockets) {
    Object.assign(this, { all, clients, sockets });
  }

  async run(until) {
    const [began, perMs] = [Date.now(), number("rate") / 1_000];
    for (let said = 0; Date.now() < until && !this.#failure; await sleep(5)) {
      const due = Math.floor((Date.now() - began) * perMs);
      for (; said < due && this.#underWay < CALLS_MAX; said++) this.#say(said);
      if (said < due) this.full++;
    }
    await Promise.all(this.#lanes.values());
    if (this.#failure) throw this.#failure;
  }

  #say(at) {
    const client = Math.floor(Math.random() * this.clients);
    const key = keysOf(client)[at % 3];
    const [kind, name] = key.split(" ");
    const n = this.published.get(key) ?? 0;
    this.published.set(key, n + 1);
    const to = kind === "socket" ? { sockets: [this.sockets.get(client)] } : { [`${kind}s`]: [name] };
    const body = { event: "m", args: [{ k: key, n, filler: "x".repeat(80) }], ...to };
    this.#underWay++;
    const call = (this.#lanes.get(key) ?? Promise.resolve()).then(() => this.#call(key, n, body));
    this.#lanes.set(key, call);
  }

  async #call(key, n, body) {
    const live = this.all.filter(Boolean);
    const node = live[[...key].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % live.length];
    try {
      await call(node, "POST", "/v1/emit", body);
    } catch (error) {
      if (!options.kill) this.#failure ??= error;
      this.doubtful.add(`${key} ${n}`);
      const why = error.message.slice(0, 100);
      this.errors[why] = (this.errors[why] ?? 0) + 1;
    } finally {
      this.#underWay--;
    }
  }
}

async function cutAtRandom(all) {
  const clients = number("clients");
  const proxy = new Proxy(all.map(({ host }) => host));
  const port = await proxy.listen(0);
  const own = await crowd(`http://127.0.0.1:${port}`, clients);
  while (own.sockets.size < clients) await sleep(100);
  const pids = all.map(({ pid }) => pid);
  const [began, before] = [Date.now(), cpu(pids)];
  const until = began + number("minutes") * 60_000;
  const publisher = new Publisher(all, clients, own.sockets);
  const { published, doubtful, errors } = publisher;
  let kills = 0;
  proxy.cutting = true;
  const killing = options.kill && setInterval(() => kill(all, kills++ % NODES, proxy), KILLS_MS);
  const restarts = setInterval(() => proxy.restart(port), PROXY_RESTARTS_MS);
  const load = [];
  const loads = setInterval(() => load.push(loadavg()[0]), 5_000);
  await publisher.run(until);
  const publishing = (Date.now() - began) / 1000;
  clearInterval(restarts);
  clearInterval(killing);
  proxy.cutting = false;
  // Who was silenced comes back by its heartbeat.
  await sleep(20_000);
  const seconds = (Date.now() - began) / 1000;
  const used = cpu(pids) - before;
  const generators = cpu(own.lines.map(({ pid }) => pid));
  own.lines.forEach(({ stdin }) => stdin.end(`${JSON.stringify({ published: [...published], doubtful: [...doubtful] })}\n`));
  while (own.reports.length < own.lines.length) await sleep(100);
  clearInterval(loads);
  const sum = (name) => own.reports.reduce((sum, report) => sum + report[name], 0);
  const count = [...published.values()].reduce((sum, n) => sum + n, 0);
  const names = ["received", "recovered", "fresh", "lost", "twice", "disordered", "connected"];
  return {
    clients, seconds, kills, doubtful: doubtful.size, errors, published: count, perSecond: count / publishing, full: publisher.full,
    ...Object.fromEntries(names.map((name) => [name, sum(name)])),
    neverAnother: clients - new Set(own.fresh).size,
    bad: own.reports.flatMap(({ bad }) => bad).slice(0, 10),
    cuts: proxy.cuts, cpu: { nodes: used, clients: generators, proxyAndPublisher: process.cpuUsage().user / 1e6 },
    load: [Math.min(...load), Math.max(...load)],
    ...(await metrics(all, "sockeye_returns_total")),
  };
}

// ---- the second part ----------------------------------------------------------------------------------------------------------

/** Socket.IO on a WebSocket, and nothing else. */
class Raw {
  numbers = [];
  late = [];

  constructor(host, auth = {}) {
    const [name, port] = host.split(":");
    this.socket = connect({ port: Number(port), host: name });
    this.socket.setNoDelay(true);
    this.rest = Buffer.alloc(0);
    this.socket.write(
      `GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n` +
        `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}\r\n\r\n`,
    );
    this.auth = auth;
    this.opened = new Promise((done, fail) => {
      this.done = done;
      this.socket.on("error", fail);
    });
    this.socket.on("data", (bytes) => this.read(bytes));
  }

  send(said) {
    const bytes = Buffer.from(said);
    const head = bytes.length < 126 ? Buffer.from([0x81, 0x80 | bytes.length, 0, 0, 0, 0]) : Buffer.from([0x81, 0xfe, bytes.length >> 8, bytes.length & 255, 0, 0, 0, 0]);
    this.socket.write(Buffer.concat([head, bytes]));
  }

  read(bytes) {
    this.rest = Buffer.concat([this.rest, bytes]);
    if (!this.isOpen) {
      const end = this.rest.indexOf("\r\n\r\n");
      if (end < 0) return;
      this.isOpen = true;
      this.rest = this.rest.subarray(end + 4);
    }
    for (;;) {
      if (this.rest.length < 2) return;
      let [at, len] = [2, this.rest[1]];
      if (len === 126) {
        if (this.rest.length < 4) return;
        [at, len] = [4, this.rest.readUInt16BE(2)];
      } else if (len === 127) {
        if (this.rest.length < 10) return;
        [at, len] = [10, Number(this.rest.readBigUInt64BE(2))];
      }
      if (this.rest.length < at + len) return;
      const said = this.rest.toString("utf8", at, at + len);
      this.rest = this.rest.subarray(at + len);
      this.hear(said);
    }
  }

  hear(said) {
    if (said.startsWith("0{")) this.send(`40${JSON.stringify(this.auth)}`);
    else if (said === "2") this.send("3");
    else if (said.startsWith("40")) {
      Object.assign(this, JSON.parse(said.slice(2)));
      this.done();
    } else if (said.startsWith("43")) this.acked?.();
    else if (said.startsWith("42")) {
      const event = JSON.parse(said.slice(2));
      if (typeof event.at(-1) === "string") this.offset = event.at(-1);
      if (event[0] !== "m") return;
      this.numbers.push(event[1].n);
      if (event[1].at) this.late.push(Date.now() - event[1].at);
    }
  }

  join(room) {
    const joined = new Promise((done) => (this.acked = done));
    this.send(`421${JSON.stringify(["join", room])}`);
    return joined;
  }
}

const percentile = (values, part) => values.sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))];

/** So many at a time. */
async function each(items, width, use) {
  const waiting = items.entries();
  await Promise.all(Array.from({ length: width }, async () => {
    for (const [at, item] of waiting) await use(item, at);
  }));
}

// A room for each two of the crowd, and a hundred for all of them.
const room = (at) => `c${at >> 1}`;
const wideRoom = (at) => `d${at % 100}`;

/** Raw clients from `from` on, `count` of them, one of `parts` such shares. */
class Share {
  constructor({ from, count, parts, hosts }) {
    Object.assign(this, { from, count, parts, hosts, token: token("crowd") });
  }

  each(width, use) {
    const clients = Array.from({ length: this.count });
    return each(clients, Math.ceil(width / this.parts), (_, at) => use(at, this.from + at));
  }

  host = (at) => this.hosts[at % this.hosts.length];

  async open() {
    this.clients = [];
    await this.each(WIDTH.open, async (at, name) => {
      const client = new Raw(this.host(name), { token: this.token });
      this.clients[at] = client;
      await client.opened;
      await client.join(room(name));
      await client.join(wideRoom(name));
    });
    return {};
  }

  async cut() {
    this.left = this.clients.map(({ sid, pid, offset, socket }) => {
      socket.resetAndDestroy();
      return { sid, pid, offset };
    });
    this.clients = [];
    return {};
  }

  /** Each comes to the node behind the one that it left. */
  async back() {
    let [same, failed] = [0, 0];
    const before = process.cpuUsage();
    await this.each(WIDTH.back, async (at, name) => {
      const { sid, pid, offset } = this.left[at];
      const client = new Raw(this.host(name + 1), { token: this.token, pid, offset });
      this.clients[at] = client;
      await client.opened.then(() => client.sid === sid && same++, () => failed++);
    });
    const { user, system } = process.cpuUsage(before);
    return { same, failed, cpu: (user + system) / 1e6 };
  }

  async judge() {
    const expected = Array.from({ length: MISSED / 2 }, (_, n) => n);
    const wrong = this.clients.filter(({ numbers }) => {
      const [own, wide] = [numbers.filter((n) => n < 1000), numbers.filter((n) => n >= 1000)];
      return `${own}` !== `${expected}` || `${wide}` !== `${expected.map((n) => n + 1000)}`;
    });
    this.clients.forEach(({ socket }) => socket.destroy());
    return { wrong: wrong.length, example: wrong[0]?.numbers };
  }
}

/** A share in a process of its own: a word each way for each step. */
class FarShare {
  constructor({ from, count, parts, hosts }) {
    const args = ["--role", "raw", "--from", `${from}`, "--count", `${count}`, "--parts", `${parts}`, "--hosts", hosts.join()];
    this.child = start(process.execPath, [fileURLToPath(import.meta.url), ...args], ["pipe", "pipe", "inherit"]);
    this.answers = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }

  async say(step) {
    this.child.stdin.write(`${step}\n`);
    const { value, done } = await this.answers.next();
    if (done) throw new Error(`cannot ${step} raw clients: their process ended`);
    return JSON.parse(value);
  }

  open = () => this.say("open");
  cut = () => this.say("cut");
  back = () => this.say("back");
  judge = () => this.say("judge");
}

async function rawShare() {
  const share = new Share({ from: number("from"), count: number("count"), parts: number("parts"), hosts: options.hosts.split(",") });
  for await (const step of createInterface({ input: process.stdin })) process.stdout.write(`${JSON.stringify(await share[step]())}\n`);
  process.exit(0);
}

function shares(all) {
  const [raw, hosts] = [number("raw"), all.map(({ host }) => host)];
  if (raw === 0) return [new Share({ from: 0, count: number("crowd"), parts: 1, hosts })];
  const parts = Math.ceil(raw / RAW_EACH);
  const each = Math.ceil(raw / parts);
  return Array.from({ length: parts }, (_, at) => new FarShare({ from: at * each, count: Math.min(each, raw - at * each), parts, hosts }));
}

/** What all shares answer to a step: numbers are added up. */
async function step(crowd, name) {
  const answers = await Promise.all(crowd.map((share) => share[name]()));
  const sum = (key) => answers.reduce((sum, answer) => sum + (answer[key] ?? 0), 0);
  return { answers, sum };
}

async function backAtOnce(all) {
  const [count, stay] = [number("raw") || number("crowd"), number("stay")];
  const crowd = shares(all);
  await step(crowd, "open");
  const stayers = Array.from({ length: stay });
  await each(stayers, 50, async (_, at) => {
    stayers[at] = new Raw(all[at % NODES].host, { token: token("crowd") });
    await stayers[at].opened;
    await stayers[at].join("stay");
  });
  const before = await metrics(all, "sockeye_re");
  await step(crowd, "cut");
  const began = Date.now();
  const rooms = Array.from({ length: Math.ceil(count / 2) }, (_, at) => room(2 * at));
  let said = 0;
  const beat = setInterval(() => {
    call(all[said % NODES], "POST", "/v1/emit", { event: "m", args: [{ n: said, at: Date.now() }], rooms: ["stay"] }).catch((error) => console.error(error));
    said++;
  }, 20);
  for (let n = 0; n < MISSED / 2; n++) {
    await each(rooms, 8, (name, at) => call(all[at % NODES], "POST", "/v1/emit", { event: "m", args: [{ n, filler: "x".repeat(80) }], rooms: [name] }));
    await each(Array.from({ length: 100 }), 8, (_, at) => call(all[at % NODES], "POST", "/v1/emit", { event: "m", args: [{ n: n + 1000, filler: "x".repeat(80) }], rooms: [wideRoom(at)] }));
  }
  await sleep(Math.max(0, number("away") * 1000 - (Date.now() - began)));
  const [pids, awayMs] = [all.map(({ pid }) => pid), Date.now() - began];
  stayers.forEach((client) => (client.late = []));
  const [back, used] = [Date.now(), cpu(pids)];
  const returned = await step(crowd, "back");
  const seconds = (Date.now() - back) / 1000;
  const processors = (cpu(pids) - used) / seconds;
  const lateness = stayers.flatMap(({ late }) => late);
  await sleep(2_000);
  clearInterval(beat);
  await sleep(2_000);
  const judged = await step(crowd, "judge");
  const missing = stayers.reduce((sum, { numbers }) => sum + said - new Set(numbers).size, 0);
  const after = await metrics(all, "sockeye_re");
  const grew = Object.fromEntries(Object.entries(after).map(([key, value]) => [key, value - (before[key] ?? 0)]).filter(([key, value]) => value > 0 && /returns|replay/.test(key)));
  stayers.forEach(({ socket }) => socket.destroy());
  return {
    count, processes: crowd.length, awayMs, seconds, same: returned.sum("same"), failed: returned.sum("failed"), wrong: judged.sum("wrong"),
    example: judged.answers.find(({ example }) => example)?.example, processorsOfNodes: processors, processorsOfRaw: returned.sum("cpu") / seconds,
    stayed: { clients: stay, events: said, lost: missing, p50: percentile(lateness, 0.5), p99: percentile(lateness, 0.99) }, load: loadavg()[0], ...grew,
  };
}

// ---- both ---------------------------------------------------------------------------------------------------------------------

async function main() {
  process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));
  const folder = mkdtempSync(join(tmpdir(), "sockeye-returns-"));
  const all = await nodes(folder);
  while ((await Promise.all(all.map(async (node) => JSON.parse(await call(node, "GET", "/v1/nodes")).nodes.length))).some((known) => known < NODES)) await sleep(100);
  // Sockets go from node to node when all of them have been there for a while.
  await sleep(11_000);
  const results = [];
  if (number("clients") > 0) results.push(await cutAtRandom(all));
  results.forEach((result) => console.log(JSON.stringify(result, null, 1)));
  if (number("raw") + number("crowd") > 0 && !options.kill) {
    results.push(await backAtOnce(all));
    console.log(JSON.stringify(results.at(-1), null, 1));
  }
  const faults = results.flatMap(({ lost = 0, twice = 0, disordered = 0, wrong = 0, stayed }) => [lost, twice, disordered, wrong, stayed?.lost ?? 0]);
  process.exit(faults.some((count) => count > 0) ? 1 : 0);
}

await ({ stock, raw: rawShare }[options.role] ?? main)();
