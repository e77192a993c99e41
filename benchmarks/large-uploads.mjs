// What uploads cost a chat: 5,000 people chat alone, then beside 100 uploads of 50 MB at once. Delays of the chat in both times, and memory.
// One run: node large-uploads.mjs [--users 5000] [--uploads 100] [--megabytes 50] [--seconds 40] [--shards 1] [--rate 64MiB]
// SOCKEYE_BIN and SOCKEYE_BENCH_BIN name the programs. Prints a table, and JSON with --json FILE.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { setPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { values } = parseArgs({
  options: {
    users: { type: "string", default: "5000" },
    uploads: { type: "string", default: "100" },
    megabytes: { type: "string", default: "50" },
    seconds: { type: "string", default: "40" },
    shards: { type: "string", default: "1" },
    rate: { type: "string", default: "64MiB" },
    json: { type: "string" },
  },
});
const numbers = ["users", "uploads", "megabytes", "seconds", "shards"];
const [users, uploads, megabytes, seconds, shards] = numbers.map((name) => Number(values[name]));
const GATEWAY = process.env.SOCKEYE_BIN ?? here("../target/production/sockeye");
const BENCH = process.env.SOCKEYE_BENCH_BIN ?? here("../target/production/sockeye-bench");
const SECRET = "a secret of this measurement, long enough";
const MIB = 1024 * 1024;
const folder = mkdtempSync(join(tmpdir(), "sockeye-uploads-"));
const children = [];
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

function start(program, args, options = {}) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  children.push(child);
  return child;
}

async function startGateway() {
  const config = `profile = "socket.io"
[server]
shards = ${shards}
[auth]
secret = "${SECRET}"
[log]
format = "json"
connections = false
[large]
folder = "bodies"
folder_max = "100GiB"
uploads = true
upload_max = "1GiB"
bytes_per_second = "${values.rate}"
transfers_per_address = 512
uploads_per_user = 1024
uploads_per_address = 1024
upload_bytes_per_user = "100GiB"
upload_bytes_per_address = "100GiB"
[namespaces."/"]
large = "store"
client_joins = true
default.action = "rooms"
[namespaces."/".events.message]
action = "rooms"
echo = true
`;
  const file = join(folder, "sockeye.toml");
  writeFileSync(file, config);
  const child = start(GATEWAY, ["--config", file, "--listen", "127.0.0.1:0", "--admin", "off"]);
  child.stdout.resume();
  for await (const line of createInterface({ input: child.stderr })) {
    const said = JSON.parse(line);
    const found = JSON.stringify(said).match(/127\.0\.0\.1:(\d+)/);
    if (found) return { child, port: Number(found[1]) };
  }
  throw new Error("the gateway did not start");
}

/** The chat: everybody arrives, chats alone, then beside the uploads. */
function scenario() {
  const arrival = Math.ceil(users / 100) + 2;
  const text = `name = "beside-uploads"
about = "people in rooms of 50 write six messages a minute each"
protocol = "socket.io"
[variables]
room = "room-\${user / 50}"
[payloads.chat]
size = "160B"
body = '{"text":"\${stamp}\${fill}"}'
[[phases]]
name = "arrive"
arrivals = "100/s"
connections = ${users}
duration = "${arrival}s"
[[phases]]
name = "alone"
duration = "${seconds}s"
[[phases]]
name = "beside"
duration = "${seconds}s"
[flows.person]
steps = [
  { connect = true },
  { join = "\${room}" },
  { loop = [{ emit = "message", payload = "chat", to = "\${room}", echo = true, ack = true }], every = "10s" },
]
`;
  const file = join(folder, "chat.toml");
  writeFileSync(file, text);
  return { file, beginsAfter: arrival + seconds };
}

/** Memory of the process's own: without the pages of its files. */
function ownMemory(pid) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(status.match(/RssAnon:\s+(\d+)/)[1]) / 1024;
}

async function upload(port, token) {
  const size = megabytes * 1_000_000;
  const headers = { authorization: `Bearer ${token}`, "content-length": size };
  const path = "/upload?event=file&room=nobody";
  const sent = request({ host: "127.0.0.1", port, method: "POST", path, headers, agent: false });
  const answered = once(sent, "response");
  const piece = Buffer.alloc(MIB, 7);
  for (let left = size; left > 0; left -= piece.length) {
    if (!sent.write(left < piece.length ? piece.subarray(0, left) : piece)) await once(sent, "drain");
  }
  sent.end();
  const [response] = await answered;
  response.resume();
  await once(response, "end");
  return response.statusCode;
}

function percentiles({ buckets_ns: buckets, count }) {
  const at = (share) => {
    let seen = 0;
    for (const [ns, n] of buckets) {
      seen += n;
      if (seen >= count * share) return ns / 1e6;
    }
    return Number.NaN;
  };
  return { p50: at(0.5), p99: at(0.99), count };
}

const gateway = await startGateway();
gateway.child.stderr.resume();
const { pid } = gateway.child;
const args = ["token", "--secret", SECRET, "--uid", "uploader", "--permission", "publish:nobody"];
const token = execFileSync(GATEWAY, args, { encoding: "utf8" }).trim();
const chat = scenario();
const report = join(folder, "report.json");
const url = `http://127.0.0.1:${gateway.port}`;
const bench = start(BENCH, ["run", chat.file, "--url", url, "--pid", String(pid), "--json", report]);
let said = "";
for (const stream of [bench.stdout, bench.stderr]) stream.on("data", (text) => (said += text));
const ended = once(bench, "exit");
await pause(chat.beginsAfter * 1000 + 1000);
// Clients that upload stand elsewhere: here they take no time from those that are measured.
setPriority(19);
const before = ownMemory(pid);
let peak = before;
const watch = setInterval(() => {
  peak = Math.max(peak, ownMemory(pid));
}, 50);
const began = performance.now();
const statuses = await Promise.all(Array.from({ length: uploads }, () => upload(gateway.port, token)));
const took = (performance.now() - began) / 1000;
await ended;
clearInterval(watch);
const { phases, totals } = JSON.parse(readFileSync(report, "utf8"));
const phase = (name) => percentiles(phases.find((phase) => phase.name === name).delivery);
const [alone, beside] = [phase("alone"), phase("beside")];
const stored = statuses.filter((status) => status === 201).length;
const result = { users, uploads, megabytes, stored, took, seconds, before, peak, alone, beside };
const { lost, duplicated, reordered } = totals;
if (values.json) writeFileSync(values.json, JSON.stringify({ ...result, lost, duplicated, reordered }));
const ms = (value) => `${value.toFixed(2)} ms`;
console.log(`${stored} of ${uploads} uploads of ${megabytes} MB stored, in ${took.toFixed(1)} s of the ${seconds} s
memory of the gateway: ${before.toFixed(1)} MiB before, ${peak.toFixed(1)} MiB at most beside them
chat of ${users}, delay of a delivery: alone p50 ${ms(alone.p50)}, p99 ${ms(alone.p99)} (${alone.count} deliveries)
                        beside p50 ${ms(beside.p50)}, p99 ${ms(beside.p99)} (${beside.count} deliveries)
lost ${lost}, doubled ${duplicated}, out of order ${reordered}`);
if (bench.exitCode !== 0) console.error(said);
process.exit(stored === uploads && bench.exitCode === 0 ? 0 : 1);
