// What an acked event costs, in CPU of all processes that serve it: by a worker behind the gateway (on Node or Bun, by TCP or a Unix socket), by Socket.IO on Node, on Bun
// with its own engine, and by a rule of the gateway. Loads: events a second, depths, and `rooms-1000`: publishes a second to rooms of one.
// One run measures all of them in turn, at each load: node worker-cost.mjs [--rounds 5] [--loads 100,1000,depth-8,rooms-1000,rooms] [--servers worker,unix-worker,bun-worker,unix-bun-worker,node,bun,rule]
// SOCKEYE_BIN and SOCKEYE_BENCH_BIN name the programs, SDK the folder of @sockeye/server (built, with its packages). Prints a table, and JSON with --json FILE.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    loads: { type: "string", default: "100,1000,10000,depth-1,depth-8,rooms-1000,rooms" },
    servers: { type: "string", default: "worker,node,bun,rule" },
    json: { type: "string" },
  },
});
const GATEWAY = process.env.SOCKEYE_BIN ?? here("../target/production/sockeye");
const BENCH = process.env.SOCKEYE_BENCH_BIN ?? here("../target/production/sockeye-bench");
const SDK = process.env.SDK ?? here("../sdk/node");
const BUN = join(SDK, "node_modules/.bin/bun");
const SCENARIOS = here("../crates/bench/scenarios");
const folder = mkdtempSync(join(tmpdir(), "sockeye-cost-"));
const children = [];

function start(program, args, options = {}) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  children.push(child);
  // Nobody waits for a program that cannot start: Bun's, say, whose package was installed without its script.
  let said = "";
  child.stderr.on("data", (bytes) => (said = (said + bytes).slice(-500)));
  child.once("exit", (code) => {
    if (!code) return;
    console.error(`${program} ${args.join(" ")} ended with ${code}: ${said}`);
    process.exit(1);
  });
  return child;
}

async function gateway(name, config) {
  const file = join(folder, `${name}.toml`);
  writeFileSync(file, `profile = "socket.io"\n[server]\nshards = 1\n[log]\nformat = "json"\n${config}`);
  const child = start(GATEWAY, ["--config", file, "--listen", "127.0.0.1:0", "--admin", "off"]);
  for await (const line of createInterface({ input: child.stderr })) {
    if (!line.includes('"listening"')) continue;
    child.stderr.resume();
    const { addresses, workers } = JSON.parse(line);
    return { url: `http://${addresses.split(",")[0]}`, workers, pid: child.pid };
  }
  throw new Error(`cannot start ${GATEWAY}: it ended`);
}

async function accepts(port) {
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    const open = await Promise.race([once(socket, "connect").then(() => true), once(socket, "error").then(() => false)]).catch(() => false);
    socket.destroy();
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function worker(program, listen = "127.0.0.1:0") {
  const [, key] = execFileSync(GATEWAY, ["api-key", "cook"], { encoding: "utf8" }).match(/(sockeye_\S+)/);
  const digest = createHash("sha256").update(key).digest("hex");
  const config = `[workers]\nlisten = "${listen}"\n[backends.kitchen]\napi_keys = ["cook:${digest}"]\n[namespaces."/"]\nbackend = "kitchen"\n`;
  const { url, workers, pid } = await gateway("worker", config);
  const { pid: own } = start(program, [join(SDK, "examples/measure.mjs"), workers, key]);
  return { url, pids: { gateway: pid, worker: own } };
}

async function alone(program, name) {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address();
  await new Promise((resolve) => free.close(resolve));
  const { pid } = start(program, [join(SDK, "examples/measure.mjs"), port]);
  await accepts(port);
  return { url: `http://127.0.0.1:${port}`, pids: { [name]: pid } };
}

const SERVERS = {
  worker: () => worker(process.execPath),
  "unix-worker": () => worker(process.execPath, `unix:${join(folder, "node.sock")}`),
  "bun-worker": () => worker(BUN),
  "unix-bun-worker": () => worker(BUN, `unix:${join(folder, "bun.sock")}`),
  node: () => alone(process.execPath, "node"),
  bun: () => alone(BUN, "bun"),
  async rule() {
    const events = '[namespaces."/".events.echo]\naction = "reply"\n[namespaces."/".events.tell]\naction = "rooms"\necho = true\n';
    const { url, pid } = await gateway("rule", `[namespaces."/"]\nclient_joins = true\n${events}`);
    return { url, pids: { gateway: pid } };
  },
};

/** What the load generator runs. */
function scenarioOf(load) {
  const [, kind, rate] = /^(rooms-?)?(\d+)?$/.exec(load) ?? [];
  if (load === "rooms") return [here("workers/rooms.toml")];
  if (kind) return [join(SCENARIOS, "rooms-paced.toml"), "--scale", String(Number(rate) / 1_000)];
  if (rate) return [join(SCENARIOS, "worker-paced.toml"), "--scale", String(Number(rate) / 1_000)];
  return [here(`suite/ack-${load}.toml`)];
}

/** Times that threads of a process gave up their core to wait for something. */
function sleeps(pid) {
  let all = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const [, count] = /^voluntary_ctxt_switches:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/task/${thread}/status`, "utf8")) ?? [];
    all += Number(count);
  }
  return all;
}

function measure({ url, pids }, load) {
  const scenario = scenarioOf(load);
  const file = join(folder, "result.json");
  const names = Object.keys(pids);
  const before = names.map((name) => sleeps(pids[name]));
  const args = ["run", ...scenario, "--url", url, ...names.flatMap((name) => ["--pid", String(pids[name])]), "--json", file];
  execFileSync(BENCH, args, { stdio: ["ignore", "ignore", "pipe"] });
  const result = JSON.parse(readFileSync(file, "utf8"));
  const phases = result.phases ?? result.outcome?.phases;
  const measured = phases.find(({ name }) => name === "measured");
  // A publish ends with its delivery.
  const [ended, latency] = load.startsWith("rooms") ? ["received", "delivery"] : ["acked", "ack"];
  const events = phases.reduce((sum, phase) => sum + phase[ended], 0);
  const us = Object.fromEntries(names.map((name, at) => [name, (measured.process_cpu_s[at] * 1e6) / measured[ended]]));
  const waits = Object.fromEntries(names.map((name, at) => [name, (sleeps(pids[name]) - before[at]) / events]));
  const [p50_ms, p99_ms] = [0.5, 0.99].map((share) => quantile(measured[latency], share));
  return { rate: measured[ended] / measured.duration_s, us, waits, p50_ms, p99_ms };
}

/** Of a distribution: its buckets have their highest value and their count. */
function quantile({ count, buckets_ns }, share) {
  let left = count * share;
  for (const [value, many] of buckets_ns) if ((left -= many) <= 0) return value / 1e6;
}

const median = (values) => values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)];
const places = (value) => (!Number.isFinite(value) ? "–" : value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

try {
  const servers = {};
  for (const name of options.servers.split(",")) servers[name] = await SERVERS[name]();
  const rows = [];
  for (const load of options.loads.split(",")) {
    const runs = Object.fromEntries(Object.keys(servers).map((name) => [name, []]));
    for (let round = 0; round < Number(options.rounds); round += 1) for (const name in servers) runs[name].push(measure(servers[name], load));
    for (const name in runs) {
      const of = (part) => Object.fromEntries(Object.keys(runs[name][0][part]).map((key) => [key, median(runs[name].map((run) => run[part][key]))]));
      const total = median(runs[name].map(({ us }) => Object.values(us).reduce((sum, value) => sum + value, 0)));
      const row = { load, server: name, total_us: total, us: of("us"), waits: of("waits") };
      // A generator that was busy itself tells no latencies.
      for (const part of ["rate", "p50_ms", "p99_ms"]) row[part] = median(runs[name].map((run) => run[part] ?? NaN));
      rows.push(row);
      console.error(`${load} ${name}: ${places(total)} us`);
    }
  }
  console.log(`${cpus().length} cores (${cpus()[0].model}), medians of ${options.rounds}\n`);
  console.log("| load | server | CPU us for each event | of which | events/s | p50 ms | p99 ms | waits for each event |\n|---|---|---:|---|---:|---:|---:|---|");
  const parts = (values) => Object.entries(values).map(([name, value]) => `${name} ${places(value)}`).join(", ");
  for (const { load, server, total_us, us, waits, rate, p50_ms, p99_ms } of rows) {
    console.log(`| ${load} | ${server} | ${places(total_us)} | ${parts(us)} | ${rate.toFixed(0)} | ${places(p50_ms)} | ${places(p99_ms)} | ${parts(waits)} |`);
  }
  if (options.json) writeFileSync(options.json, `${JSON.stringify(rows, null, 1)}\n`);
} finally {
  for (const child of children) child.kill("SIGKILL");
}
