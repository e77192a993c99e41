// Stored history beside Centrifugo: events appended by HTTP, the time until each is stored, pages read, and bytes per event. All in one
// run, in turns: `node benchmarks/history.mjs --sockeye target/release/sockeye --centrifugo centrifugo --redis target/tools/bin/redis-server`.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join, resolve as absolute } from "node:path";
import { parseArgs } from "node:util";
import { freePort } from "../conformance/ports.mjs";

const { values: options } = parseArgs({
  options: {
    sockeye: { type: "string" },
    centrifugo: { type: "string" },
    redis: { type: "string", default: "redis-server" },
    seconds: { type: "string", default: "8" },
    rounds: { type: "string", default: "3" },
  },
});
for (const program of ["sockeye", "centrifugo", "redis"]) {
  if (options[program]?.includes("/")) options[program] = absolute(options[program]);
}
const SECONDS = Number(options.seconds);
const ROOMS = 1000;
const TEXT = "x".repeat(128);
const LANES = 32;
const PACE = 200;
const API_KEY = "a-key-of-the-run";

function call(server, method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { ...server.headers, "content-type": "application/json" };
    const request = http.request({ host: "127.0.0.1", port: server.port, method, path, headers, agent: server.agent }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => resolve({ status: answer.statusCode, text: Buffer.concat(parts).toString() }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

async function command(server, ...args) {
  const answer = await server.call(...args);
  const failed = answer.status >= 300 || answer.text.startsWith('{"error"');
  if (failed) throw new Error(`${server.name}: ${answer.status} ${answer.text.slice(0, 300)}`);
  return answer.text;
}

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];

/** As many at once as there are lanes. */
async function saturate(act) {
  const end = performance.now() + SECONDS * 1000;
  let done = 0;
  const lane = async () => {
    while (performance.now() < end) {
      await act(done++);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return done / SECONDS;
}

/** So many a second, whatever the answers do. */
async function paced(act) {
  const waits = [];
  const under = [];
  const began = performance.now();
  for (let n = 0; n < PACE * SECONDS; n++) {
    const due = began + (n * 1000) / PACE;
    const early = due - performance.now();
    if (early > 1) await new Promise((resolve) => setTimeout(resolve, early));
    under.push(act(n).then(() => waits.push(performance.now() - due)));
  }
  await Promise.all(under);
  return waits.sort((a, b) => a - b);
}

async function memoryOf(pid) {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)[1]) * 1024;
}

/** Microseconds of processor that processes have used. */
async function used(pids) {
  let ticks = 0;
  for (const pid of pids) {
    const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ")[1].split(" ");
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks * 10_000;
}

async function started(child, port) {
  for (let n = 0; n < 600; n++) {
    if (child.exitCode !== null) throw new Error(`${child.spawnfile} ended with ${child.exitCode}: ${child.said}`);
    const up = await new Promise((resolve) => {
      const socket = net.connect(port, "127.0.0.1", () => resolve(true)).on("error", () => resolve(false));
      socket.unref();
      setTimeout(() => resolve(false), 500);
    });
    if (up) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${child.spawnfile} does not listen on ${port}`);
}

function run(program, args, cwd) {
  const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  child.said = "";
  for (const pipe of [child.stdout, child.stderr]) pipe.on("data", (text) => (child.said = (child.said + text).slice(-2000)));
  return child;
}

async function redis(folder) {
  const port = await freePort();
  const child = run(options.redis, ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"], folder);
  await started(child, port);
  return { child, url: `redis://127.0.0.1:${port}` };
}

async function sockeye(store, url, folder) {
  const [port, admin] = [await freePort(), await freePort()];
  const key = run(options.sockeye, ["api-key", "run"], folder);
  await new Promise((resolve) => key.on("exit", resolve));
  const secret = /^key\s+(\S+)/m.exec(key.said)[1];
  const entry = /^entry\s+"([^"]+)"/m.exec(key.said)[1];
  const lines = [
    "[server]", "shards = 1", "[admin]", 'api_rate = "1000000/s"', `api_keys = ["${entry}"]`,
    "[history]", `store = "${store}"`, 'memory_max = "4GiB"', url ? `url = "${url}"` : "",
    '[namespaces."/".history]', "stored = true", 'age = "1d"',
    '[namespaces."/".events.say]', 'action = "rooms"', 'room_field = "room"', "history = true",
  ];
  await writeFile(join(folder, "sockeye.toml"), lines.join("\n"));
  const args = ["--config", join(folder, "sockeye.toml"), "--listen", `127.0.0.1:${port}`, "--admin", `127.0.0.1:${admin}`, "--profile", "socket.io"];
  const child = run(options.sockeye, args, folder);
  await started(child, admin);
  const server = { name: `sockeye ${store}`, port: admin, child, headers: { authorization: `Bearer ${secret}` } };
  server.agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  server.call = (...all) => call(server, ...all);
  server.publish = (n) =>
    command(server, "POST", "/v1/emit", JSON.stringify({ event: "say", rooms: [`room-${n % ROOMS}`], args: [TEXT], stored: true }));
  server.page = (n) => command(server, "GET", `/v1/history?room=room-${(n * 7) % ROOMS}&limit=100`);
  server.events = (text) => JSON.parse(text).events.length;
  return server;
}

async function centrifugo(engine, url, folder) {
  const port = await freePort();
  const config = {
    http_server: { address: "127.0.0.1", port: `${port}` },
    http_api: { key: API_KEY },
    log: { level: "error" },
    channel: { without_namespace: { history_size: 10000, history_ttl: "24h" } },
    engine: { type: engine, ...(url ? { redis: { address: url } } : {}) },
  };
  await writeFile(join(folder, "config.json"), JSON.stringify(config));
  const child = run(options.centrifugo, ["--config", join(folder, "config.json")], folder);
  await started(child, port);
  const server = { name: `centrifugo ${engine}`, port, child, headers: { "x-api-key": API_KEY } };
  server.agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  server.call = (...all) => call(server, ...all);
  server.publish = (n) => command(server, "POST", "/api/publish", JSON.stringify({ channel: `room-${n % ROOMS}`, data: TEXT }));
  server.page = (n) => command(server, "POST", "/api/history", JSON.stringify({ channel: `room-${(n * 7) % ROOMS}`, limit: 100, reverse: true }));
  server.events = (text) => JSON.parse(text).result.publications.length;
  return server;
}

async function measure(make, store) {
  const folder = await mkdtemp(join(tmpdir(), "history-"));
  const back = store === "redis" ? await redis(folder) : undefined;
  const server = await make(store, back?.url, folder);
  try {
    const pid = (back ?? server).child.pid;
    for (let n = 0; n < 500; n++) await server.publish(n);
    const before = await memoryOf(pid);
    const pids = [server.child, back?.child].filter(Boolean).map((child) => child.pid);
    let from = await used(pids);
    const rate = await saturate(server.publish);
    const append = ((await used(pids)) - from) / (rate * SECONDS);
    const bytes = ((await memoryOf(pid)) - before) / (rate * SECONDS);
    const waits = await paced(server.publish);
    const page = server.events(await server.page(1));
    from = await used(pids);
    const pages = await saturate(server.page);
    const read = ((await used(pids)) - from) / (pages * SECONDS);
    return { name: server.name, rate, append, p50: quantile(waits, 0.5), p99: quantile(waits, 0.99), bytes, pages, read, page };
  } finally {
    server.agent.destroy();
    for (const child of [server.child, back?.child]) child?.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

const kinds = [];
for (const store of ["memory", "redis"]) {
  if (options.sockeye) kinds.push([sockeye, store]);
  if (options.centrifugo) kinds.push([centrifugo, store]);
}
console.log(
  `| server | events/s | CPU us an event | stored after, p50 / p99 at ${PACE}/s | bytes of memory an event | pages/s (events of one) | CPU us a page |\n|---|---|---|---|---|---|---|`,
);
for (let round = 0; round < Number(options.rounds); round++) {
  for (const [make, store] of kinds) {
    const { name, rate, append, p50, p99, bytes, pages, read, page } = await measure(make, store);
    const waits = `${p50.toFixed(1)} / ${p99.toFixed(1)} ms`;
    console.log(`| ${name} | ${rate.toFixed(0)} | ${append.toFixed(0)} | ${waits} | ${bytes.toFixed(0)} | ${pages.toFixed(0)} (${page}) | ${read.toFixed(0)} |`);
  }
}
