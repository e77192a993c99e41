// Both scripts, run as their comments say, against the gateway.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "sockeye-load-"));
const GUESTS = 25;
const EVENTS = 6;
let gateway;
let target;

before(async () => {
  const file = join(folder, "sockeye.toml");
  writeFileSync(file, '[log]\nformat = "json"\n');
  gateway = spawn(process.env.SOCKEYE_BIN, ["--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  for await (const line of createInterface({ input: gateway.stderr })) {
    if (!line.includes('"listening"')) continue;
    target = `http://${JSON.parse(line).addresses.split(",")[0]}`;
    break;
  }
  gateway.stderr.resume();
});
after(() => gateway.kill("SIGKILL"));

/** The report that the program writes. */
async function report(program, args, file) {
  const child = spawn(program, args, { cwd: here(".."), stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ARTILLERY_DISABLE_TELEMETRY: "true" } });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (said += text));
  const [code] = await once(child, "close");
  assert.equal(code, 0, said);
  return JSON.parse(readFileSync(file, "utf8"));
}

test("guests by Artillery get answers to all that they say", async () => {
  const file = join(folder, "artillery.json");
  const { aggregate } = await report(here("../node_modules/.bin/artillery"), ["run", "artillery.yml", "--target", target, "--output", file], file);
  const { counters, summaries } = aggregate;
  const of = (name) => counters[name] ?? 0;
  assert.deepEqual([of("vusers.created"), of("vusers.completed"), of("vusers.failed")], [GUESTS, GUESTS, 0]);
  assert.equal(of("socketio.emit"), GUESTS * EVENTS);
  assert.equal(summaries["socketio.response_time"].count, GUESTS * EVENTS);
});

test("guests by k6 get answers to all that they say", async () => {
  const file = join(folder, "k6.json");
  const { metrics } = await report(process.env.K6, ["run", "--quiet", "--no-usage-report", "-e", `TARGET=${target}`, "--summary-export", file, "k6.js"], file);
  assert.ok(metrics.iterations.count >= GUESTS, JSON.stringify(metrics.iterations));
  assert.equal(metrics.acks.count, metrics.iterations.count * EVENTS);
});
