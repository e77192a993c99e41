// Socket.IO's own example applications, as they are, on Socket.IO and on `@sockeye/server` with a gateway; `sockeye-shadow` compares both.
//   node conformance/socket.io/shadow.mjs CHECKOUT SOCKEYE [EVENTS]
// CHECKOUT: a clone of github.com/socketio/socket.io. SOCKEYE: the binary, with `sockeye-shadow` beside it. EVENTS: how many of each
// application are compared at least. The packages of an application come from npm. The code of the exit is 1 if something differs.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { within } from "../js/peer/patience.js";
import { freePort } from "../ports.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const SDK = here("../../sdk/node");
const { io: connect } = createRequire(join(SDK, "package.json"))("socket.io-client");

const CLIENTS = 12;
const TRANSPORTS = [["websocket"], ["polling"], ["polling", "websocket"]];
const PATIENCE_MS = 60_000;
/** What two servers may take for the same. Longer than Socket.IO's own heartbeat is late on a busy machine. */
const WINDOW_S = 10;

/** An application leaves when it is told to, and so does the gateway that it started. */
const ENDS = "data:text/javascript,process.on('SIGTERM',()=>process.exit())";

async function until(is, what) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await is())) {
    if (Date.now() > end) throw new Error(`waited ${PATIENCE_MS / 1_000} s for ${what}`);
    await sleep(5);
  }
}

const answers = (port) =>
  new Promise((resolve) => {
    const conn = createConnection(port, "127.0.0.1", () => (conn.destroy(), resolve(true)));
    conn.on("error", () => resolve(false));
  });

/** The application twice: with the packages that it names, and with the library in the place of Socket.IO. */
function workshop(example, folder) {
  const [theirs, ours] = ["theirs", "ours"].map((name) => join(folder, name));
  cpSync(example, theirs, { recursive: true });
  cpSync(example, ours, { recursive: true });
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], { cwd: theirs, stdio: "inherit" });
  const modules = join(ours, "node_modules");
  mkdirSync(join(modules, "socket.io"), { recursive: true });
  for (const name of readdirSync(join(theirs, "node_modules"))) {
    if (name !== "socket.io") symlinkSync(join(theirs, "node_modules", name), join(modules, name));
  }
  writeFileSync(join(modules, "socket.io/package.json"), JSON.stringify({ name: "socket.io", main: "server.cjs" }));
  writeFileSync(join(modules, "socket.io/server.cjs"), `module.exports = require(${JSON.stringify(here("./server.cjs"))});\n`);
  const { version } = JSON.parse(readFileSync(join(theirs, "node_modules/socket.io/package.json"), "utf8"));
  return { theirs, ours, version };
}

/** Another process may take the port first. */
async function start(folder, sockeye, tries = 3) {
  const port = await freePort();
  const env = { ...process.env, PORT: port, SOCKEYE_BIN: sockeye, NODE_NO_WARNINGS: "1" };
  const child = spawn(process.execPath, ["--import", ENDS, "index.js"], { cwd: folder, env, stdio: ["ignore", "ignore", "inherit"] });
  await until(() => child.exitCode !== null || answers(port), `${folder} to listen`);
  if (child.exitCode !== null && tries > 1) return start(folder, sockeye, tries - 1);
  if (child.exitCode !== null) throw new Error(`the application in ${folder} ended with code ${child.exitCode}`);
  return { url: `http://127.0.0.1:${port}`, child };
}

async function shadow(sockeye, real, gateway, folder) {
  const report = join(folder, "report.json");
  const args = ["--against", real, "--gateway", gateway, "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0", "--report", report, "--window", `${WINDOW_S}s`];
  const child = spawn(join(dirname(sockeye), "sockeye-shadow"), args, { stdio: ["ignore", "pipe", "pipe"] });
  let url;
  const words = [];
  for await (const line of createInterface({ input: child.stderr })) {
    words.push(line);
    if ((url = line.match(/clients connect to (\S+);/)?.[1])) break;
  }
  if (!url) throw new Error(`sockeye-shadow did not start: ${words.join("\n")}`);
  child.stderr.resume();
  let text = "";
  child.stdout.on("data", (data) => (text += data));
  return {
    url,
    child,
    async end() {
      child.kill("SIGTERM");
      const [code] = await within(once(child, "close"), "the end of sockeye-shadow", PATIENCE_MS);
      return { code, text, report: JSON.parse(readFileSync(report, "utf8")) };
    },
  };
}

/** Clients of the three kinds, one after the other: who comes first is a part of what the applications say. */
async function arrive(url, greet) {
  const sockets = [];
  for (let n = 0; n < CLIENTS; n++) {
    const socket = connect(url, { forceNew: true, reconnection: false, transports: TRANSPORTS[n % TRANSPORTS.length] });
    await within(once(socket, "connect"), `client ${n} to connect`, PATIENCE_MS);
    await within(greet(socket, n), `the greeting of client ${n}`, PATIENCE_MS);
    sockets.push(socket);
    await sleep(100);
  }
  return sockets;
}

async function leave(sockets) {
  for (const socket of sockets) {
    socket.disconnect();
    // The comparison takes a client from the gateway a second later at most.
    await sleep(1_500);
  }
}

/** Each round, each client does `say`; all others hear `event` as often. */
async function talk(sockets, event, rounds, say) {
  let [heard, all] = [0, 0];
  for (const socket of sockets) socket.on(event, () => (heard += 1));
  for (let round = 1; round <= rounds; round++) {
    // Now and then one speaks alone: only then is there an order.
    const isAlone = round % 20 === 0;
    if (isAlone) await sleep(1_000);
    const speakers = isAlone ? [sockets[round % CLIENTS]] : sockets;
    for (const socket of speakers) say(socket, `${sockets.indexOf(socket)}: ${round}`);
    all += speakers.length * (sockets.length - 1);
    await until(() => heard >= all, `round ${round}: ${heard} of ${all} came`);
    if (heard > all) throw new Error(`${heard} came for ${all}`);
    if (isAlone) await sleep(1_000);
  }
}

/** For each crowd, if each client says so many events a round, but for those in which one speaks alone. */
const roundsFor = (events, each) => Math.ceil((events / 2 / (each * CLIENTS * (CLIENTS - 1))) * 1.06);

/** Two crowds of what the application's page does; returns when both have left. */
const APPLICATIONS = {
  async chat(url, events) {
    const rounds = roundsFor(events, 3);
    for (const crowd of ["a", "b"]) {
      const sockets = await arrive(url, async (socket, n) => {
        socket.emit("add user", `${crowd}${n}`);
        await once(socket, "login");
      });
      await talk(sockets, "new message", rounds, (socket, text) => {
        socket.emit("typing");
        socket.emit("new message", `${crowd}${text}`);
        socket.emit("stop typing");
      });
      await leave(sockets);
    }
  },
  async whiteboard(url, events) {
    const rounds = roundsFor(events, 1);
    for (const color of ["black", "red"]) {
      const sockets = await arrive(url, async () => {});
      await talk(sockets, "drawing", rounds, (socket, text) => socket.emit("drawing", { x0: text.length / 640, y0: 0.1, x1: 0.5, y1: 1 / 3, color }));
      await leave(sockets);
    }
  },
};

async function compare(name, checkout, sockeye, events) {
  const folder = mkdtempSync(join(tmpdir(), "sockeye-examples-"));
  const children = [];
  try {
    const { theirs, ours, version } = workshop(join(checkout, "examples", name), folder);
    const real = await start(theirs, sockeye);
    children.push(real.child);
    const gateway = await start(ours, sockeye);
    children.push(gateway.child);
    const between = await shadow(sockeye, real.url, gateway.url, folder);
    children.push(between.child);
    const began = Date.now();
    await APPLICATIONS[name](between.url, events);
    // What came in the last half of the window is not judged.
    await sleep(WINDOW_S * 1_000);
    const { code, text, report } = await between.end();
    const equal = Object.values(report.events).reduce((sum, event) => sum + event.equal, 0);
    console.log(`${name}, Socket.IO ${version}: ${equal} equal in ${Math.round((Date.now() - began) / 1_000)} s\n${text}`);
    return code === 0 && equal >= events;
  } finally {
    for (const child of children) child.kill("SIGTERM");
    rmSync(folder, { recursive: true, force: true });
  }
}

async function main([checkout, binary, events = "100000"]) {
  if (!checkout || !binary || !existsSync(join(checkout, "examples/chat"))) {
    console.error("cannot run: say `node conformance/socket.io/shadow.mjs CHECKOUT SOCKEYE [EVENTS]`; CHECKOUT is a clone of github.com/socketio/socket.io");
    process.exit(2);
  }
  execFileSync("npm", ["run", "--silent", "build"], { cwd: SDK, stdio: "inherit" });
  let isSame = true;
  for (const name of Object.keys(APPLICATIONS)) isSame = (await compare(name, resolve(checkout), resolve(binary), Number(events))) && isSame;
  process.exitCode = isSame ? 0 : 1;
}

await main(process.argv.slice(2));
