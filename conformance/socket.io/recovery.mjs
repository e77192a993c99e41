// Socket.IO's own example of connection state recovery with nothing but its import changed, behind a gateway: its page in Chromium, which
// closes its connection again and again, and a stock client that counts.
//   node conformance/socket.io/recovery.mjs CHECKOUT SOCKEYE
// CHECKOUT: a clone of github.com/socketio/socket.io. SOCKEYE: the binary. The packages of `examples` must be installed.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { freePort } from "../ports.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const SDK = here("../../sdk/node");
const EXAMPLE = "examples/connection-state-recovery-example";
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell";
const PATIENCE_MS = 120_000;
const ROUNDS = 3;

/** The example listens on 3000; here each copy has a port of its own. */
const PORTS = `import { Server } from "node:net"; const { listen } = Server.prototype;
Server.prototype.listen = function (port, ...rest) { return listen.call(this, port === 3000 ? Number(process.env.PORT) : port, ...rest); };`;

/** A copy of the example in which `socket.io` is the library. */
function workshop(checkout, kind, folder) {
  cpSync(join(checkout, EXAMPLE, kind), folder, { recursive: true });
  const program = join(folder, "index.js");
  const text = readFileSync(program, "utf8");
  const changed = text.replace('"socket.io"', '"@sockeye/server"');
  if (changed === text) throw new Error(`cannot change the import of ${kind}: it names no "socket.io"`);
  writeFileSync(program, changed);
  const modules = join(folder, "node_modules/@sockeye");
  mkdirSync(modules, { recursive: true });
  symlinkSync(SDK, join(modules, "server"));
  return pathToFileURL(program).href;
}

async function until(is, what) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await is())) {
    if (Date.now() > end) throw new Error(`waited ${PATIENCE_MS / 1_000} s for ${what}`);
    await sleep(50);
  }
}

/** What is wrong with the times of "ping", which come once a second: one that is missing, twice or too early. */
function wrong(times) {
  const steps = times.slice(1).map((time, at) => Date.parse(time) - Date.parse(times[at]));
  return steps.filter((ms) => ms < 500 || ms > 1_500);
}

/** As the page does it. */
async function client(url) {
  const { io } = createRequire(join(SDK, "package.json"))("socket.io-client");
  const socket = io(url, { forceNew: true, reconnectionDelay: 2_000, reconnectionDelayMax: 2_000 });
  const [times, returns] = [[], []];
  let before;
  socket.on("ping", (time) => times.push(time));
  socket.on("connect", () => {
    if (before !== undefined) returns.push(socket.recovered && socket.id === before);
    before = socket.id;
  });
  for (let round = 0; round < ROUNDS; round++) {
    const heard = times.length;
    await until(() => socket.connected && times.length > heard, `round ${round} of a client`);
    socket.io.engine.close();
    await until(() => returns.length > round, `return ${round} of a client`);
  }
  const heard = times.length;
  await until(() => times.length > heard + 1, "the last words");
  socket.disconnect();
  return { returns, times };
}

async function page(browser, url) {
  const context = await browser.newContext();
  const tab = await context.newPage();
  tab.setDefaultTimeout(PATIENCE_MS);
  await tab.goto(url);
  await tab.waitForFunction("socket.connected");
  await tab.evaluate(`window.times = []; window.returns = []; window.first = socket.id;
    socket.on("ping", (time) => times.push(time)); socket.on("connect", () => returns.push(socket.recovered && socket.id === first)); undefined`);
  await tab.waitForFunction((rounds) => window.returns.length >= rounds, ROUNDS);
  await tab.waitForFunction(() => document.getElementById("recoveryStatus").innerText === "true");
  const heard = await tab.evaluate("times.length");
  await tab.waitForFunction((before) => window.times.length > before + 1, heard);
  const found = await tab.evaluate("({ returns, times })");
  await context.close();
  return found;
}

async function play(kind, checkout, { Stage, RECOVERY }, browser) {
  const folder = mkdtempSync(join(tmpdir(), "sockeye-recovery-example-"));
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(PORTS)}` };
  const program = workshop(checkout, kind, folder);
  const stage = await Stage.open(program, [await freePort()], { rules: RECOVERY, programs: 1, folder, env });
  try {
    const all = await Promise.all([client(stage.urls[0]), page(browser, stage.urls[0])]);
    return all.every(({ returns, times }, at) => {
      const [faults, came] = [wrong(times), returns.filter(Boolean).length];
      console.log(`${kind}, ${["a client", "the page"][at]}: ${came} of ${returns.length} returns recovered, ${times.length} events, wrong steps: ${faults.length}`);
      return came === returns.length && faults.length === 0;
    });
  } finally {
    await stage.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function main([checkout, binary]) {
  if (!checkout || !binary || !existsSync(join(checkout, EXAMPLE))) {
    console.error("cannot run: say `node conformance/socket.io/recovery.mjs CHECKOUT SOCKEYE`; CHECKOUT is a clone of github.com/socketio/socket.io");
    process.exit(2);
  }
  process.env.SOCKEYE_BIN = resolve(binary);
  execFileSync("npm", ["run", "--silent", "build"], { cwd: SDK, stdio: "inherit" });
  const stages = await import("../../examples/stage.mjs");
  const { chromium } = createRequire(here("../../examples/package.json"))("playwright-core");
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"] });
  let isWell = true;
  for (const kind of ["cjs", "esm"]) isWell = (await play(kind, resolve(checkout), stages, browser)) && isWell;
  await browser.close();
  process.exitCode = isWell ? 0 : 1;
}

await main(process.argv.slice(2));
