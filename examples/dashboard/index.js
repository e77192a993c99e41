// Measures this machine once a second, and tells the measurements to everybody who looks: one room for each sensor.
import express from "express";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { cpus, freemem, loadavg, totalmem } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const EVERY_MS = 1_000;
const PATIENCE_MS = 2_000;
// Addresses of the gateways' server API. Each of them reaches the clients of all.
const gateways = (process.env.SOCKEYE ?? "http://127.0.0.1:9090").split(",");
const headers = { authorization: `Bearer ${process.env.SOCKEYE_API_KEY}`, "content-type": "application/json" };

let [busyBefore, allBefore] = [0, 0];
function busyShare() {
  let [busy, all] = [0, 0];
  for (const { times: { idle, ...others } } of cpus()) {
    const spent = Object.values(others).reduce((sum, time) => sum + time, 0);
    busy += spent;
    all += spent + idle;
  }
  const share = (busy - busyBefore) / Math.max(1, all - allBefore);
  [busyBefore, allBefore] = [busy, all];
  return share;
}

const TIMER_MS = 10;
const delay = monitorEventLoopDelay({ resolution: TIMER_MS });
delay.enable();
/** How much later than asked for a timer came. */
function longestDelayMs() {
  const longest = Math.max(0, delay.max / 1e6 - TIMER_MS);
  delay.reset();
  return longest;
}

const SENSORS = {
  cpu: () => 100 * busyShare(),
  memory: () => 100 * (1 - freemem() / totalmem()),
  load: () => loadavg()[0],
  delay: longestDelayMs,
};

/** Asks each gateway in turn: one may just be gone. */
async function publish(room, measurement) {
  const body = JSON.stringify({ event: "measurement", rooms: [room], args: [measurement] });
  let problem;
  for (const gateway of gateways) {
    try {
      const answer = await fetch(`${gateway}/v1/emit`, { method: "POST", headers, body, signal: AbortSignal.timeout(PATIENCE_MS) });
      const text = await answer.text();
      if (answer.ok) return;
      problem = `${answer.status} ${text}`;
    } catch (error) {
      problem = error.cause?.message ?? error.message;
    }
  }
  console.error(`cannot publish ${room}: ${problem}`);
}

const app = express();
app.get("/", (req, res) => {
  res.sendFile(fileURLToPath(new URL("./index.html", import.meta.url)));
});
const port = process.env.PORT ?? 3000;
app.listen(port, () => {
  console.log(`listening on port ${port}`);
});

busyShare();
for (;;) {
  await sleep(EVERY_MS - (Date.now() % EVERY_MS));
  const at = Date.now();
  // One after the other in each room: a measurement does not overtake the one before it.
  await Promise.all(Object.entries(SENSORS).map(([room, measure]) => publish(room, { at, value: measure() })));
}
