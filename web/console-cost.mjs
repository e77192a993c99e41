// What looking costs: sessions over several nodes at one Redis on this machine, then searches and open consoles.
// `SOCKEYE_BIN=… SOCKEYE_BENCH=… node console-cost.mjs SESSIONS NODES SECONDS`, with redis-server in the PATH. A process may have 20,000
// files, so a node holds 18,000 sessions at most.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Cluster } from "./tests/cluster.mjs";
import { Operator } from "./tests/operator.mjs";
import { launchBrowser } from "./tests/person.mjs";

const [sessions = 2000, nodes = 2, seconds = 20] = process.argv.slice(2).map(Number);
const CONSOLES = 10;
const TRIES = 30;
/** Clock ticks of the kernel in a second. */
const TICKS = 100;

const cluster = await Cluster.start(nodes);
const key = cluster.keys.ops.key;
const [first] = cluster.watched;
const said = (line) => console.log(line);

/** The load generator holds the sessions, until it is ended. */
function hold() {
  const file = join(cluster.folder, "idle.toml");
  writeFileSync(
    file,
    `name = "console-idle"\nabout = "sessions that only answer heartbeats"\nprotocol = "socket.io"\n` +
      `[[phases]]\nname = "hold"\nconnections = ${Math.ceil(sessions / nodes)}\nduration = "30m"\n[flows.idle]\nsteps = [{ connect = true }]\n`,
  );
  return cluster.watched.map(({ gateway }) => {
    const args = ["run", file, "--url", gateway.url];
    return spawn(process.env.SOCKEYE_BENCH, args, { cwd: cluster.folder, stdio: "ignore" });
  });
}

async function ask(path, { url } = first) {
  const began = performance.now();
  const answer = await fetch(`${url}${path}`, { headers: { Authorization: `Bearer ${key}` } });
  const body = await answer.json();
  if (!answer.ok) throw new Error(`${path}: ${JSON.stringify(body)}`);
  return [performance.now() - began, body];
}

async function timed(name, path) {
  const times = [];
  let matched = 0;
  let complete = true;
  for (let n = 0; n < TRIES; n += 1) {
    const [took, body] = await ask(path);
    times.push(took);
    matched = body.matched ?? 0;
    complete &&= body.complete;
    await sleep(100);
  }
  times.sort((a, b) => a - b);
  const at = (share) => times[Math.ceil(share * times.length) - 1].toFixed(1);
  said(`| ${name} | ${matched} | ${at(0.5)} | ${at(0.95)} | ${at(1)} | ${complete} |`);
}

function cpu({ gateway }) {
  const stat = readFileSync(`/proc/${gateway.pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** Processor time of the first node, of one core. */
async function share(name) {
  const [before, began] = [cpu(first), performance.now()];
  await sleep(seconds * 1000);
  const used = (cpu(first) - before) / ((performance.now() - began) / 1000);
  said(`| ${name} | ${(100 * used).toFixed(2)} % |`);
}

/** The longest turn that shards report, by the histogram's bound. */
async function turns() {
  const headers = { Authorization: `Bearer ${key}` };
  const text = await (await fetch(`${first.url}/metrics`, { headers })).text();
  const lines = text.split("\n").filter((line) => /turn_duration_seconds_bucket/.test(line));
  return new Map(
    lines.map((line) => [/le="([^"]+)"/.exec(line)?.[1], Number(line.split(" ").at(-1))]),
  );
}

function longer(before, after, bound) {
  const above = (reading) => reading.get("+Inf") - reading.get(bound);
  return above(after) - above(before);
}

const holders = hold();
for (const event of ["uncaughtException", "SIGTERM"])
  process.on(event, async (error) => {
    console.error(error);
    await cluster.stop();
    process.exit(1);
  });
process.on("exit", () => {
  for (const holder of holders) holder.kill("SIGKILL");
});
let count = 0;
for (let n = 0; count < sessions && n < 600; n += 1) {
  await sleep(1000);
  const [, { nodes: rows }] = await ask("/v1/nodes");
  count = rows.reduce((sum, row) => sum + row.sessions, 0);
}
await sleep(5000);
said(
  `${count} sessions on ${nodes} nodes, ${availableParallelism()} cores, load ${loadavg()
    .map((n) => n.toFixed(1))
    .join(" ")}\n`,
);
said("| question | found | p50 ms | p95 ms | most ms | complete |\n|---|---:|---:|---:|---:|---|");
const before = await turns();
await timed("this node, by user (walks the table)", "/v1/node/sessions?user=nobody");
await timed("this node, 200 shown", "/v1/node/sessions?limit=200");
await timed("all nodes, by user", "/v1/nodes/sessions?user=nobody");
await timed("all nodes, 200 shown", "/v1/nodes/sessions?limit=200");
await timed("all nodes, by address", "/v1/nodes/sessions?address=10.1.2.3");
const [, some] = await ask("/v1/nodes/sessions?limit=1");
const id = encodeURIComponent(some.sessions[0].sockets[0].id);
await timed("all nodes, by socket", `/v1/nodes/sessions?id=${id}`);
await timed("all nodes, rooms by a part of the name", "/v1/nodes/rooms?contains=x");
await timed("all nodes, slowest rooms (walks the tables)", "/v1/nodes/rooms?order=slowest");
await timed("all nodes, 1,000 ends", "/v1/nodes/ends?limit=1000");
const after = await turns();
const bounds = [...after.keys()].filter((bound) => bound !== "+Inf");
said(
  `\nTurns of the first node above each bound meanwhile: ${bounds.map((bound) => `${bound} s: ${longer(before, after, bound)}`).join(", ")}\n`,
);

said("| first node | of a core |\n|---|---:|");
await share("nobody looks");
const browser = await launchBrowser();
const operators = [];
for (let n = 0; n < CONSOLES; n += 1) {
  const operator = await Operator.come(browser, first);
  await operator.giveKey(key);
  // A busy machine may have a node that is not well.
  await operator.page.waitForSelector("#main h1");
  operators.push(operator);
}
await sleep(5000);
await share(`${CONSOLES} consoles at the overview`);
for (const operator of operators) await operator.open("backends");
await sleep(2000);
await share(`${CONSOLES} consoles at the backends`);
for (const operator of operators) await operator.open("nodes");
await sleep(2000);
await share(`${CONSOLES} consoles at the nodes`);
await browser.close();
await sleep(3000);
await share("nobody looks, once more");
said(
  `\nload ${loadavg()
    .map((n) => n.toFixed(1))
    .join(" ")}`,
);
await cluster.stop();
process.exit(0);
