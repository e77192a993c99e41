// A cluster of two builds: three nodes of the old one, replaced by the new one, one after the other, by drains, and back again. Stock clients go
// where a node is, and count what they miss of a publisher's numbers.
// OLD=/path/to/sockeye NEW=/path/to/sockeye SDK=folder/with/socket.io-client node mixed.mjs [--clients 60] [--rate 50] [--recovery]
// redis-server must be in PATH. Prints the figures; ends with 1 if a client did not come back, or heard something twice or out of order.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { freePort } from "../conformance/ports.mjs";

const { values } = parseArgs({
  options: { clients: { type: "string", default: "60" }, rate: { type: "string", default: "50" }, recovery: { type: "boolean", default: false } },
});
const CLIENTS = Number(values.clients);
const { io } = createRequire(join(resolve(process.env.SDK), "package.json"))("socket.io-client");
const folder = mkdtempSync(join(tmpdir(), "mixed-"));
const children = new Set();

function start(program, args, options) {
  const child = spawn(program, args, options);
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

const redis = await freePort();
start("redis-server", ["--port", String(redis), "--save", ""], { stdio: "ignore", cwd: folder });
await sleep(500);
const config = join(folder, "sockeye.toml");
writeFileSync(
  config,
  `profile = "socket.io"\n[server]\nshards = 2\ndrain_window = "2s"\n[cluster]\nadapter = "redis"\nurls = ["redis://127.0.0.1:${redis}"]\n${values.recovery ? `[namespaces."/".recovery]\nlevel = "node"\nwindow = "1m"\noffsets = "all"\n` : ""}`,
);

/** A node, once it serves. */
async function node(build) {
  const args = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config", config];
  const child = start(process.env[build], args, { stdio: ["ignore", "ignore", "pipe"] });
  for await (const line of createInterface({ input: child.stderr })) {
    const said = JSON.parse(line);
    if (said.message !== "listening") continue;
    child.stderr.resume();
    const address = [said.public ?? said.listen ?? said.addr].flat().join(" ").match(/127\.0\.0\.1:\d+/);
    return { build, child, url: `http://${(address ?? line.match(/127\.0\.0\.1:\d+/))[0]}` };
  }
  throw new Error(`a node of ${build} did not start`);
}

const nodes = [await node("OLD"), await node("OLD"), await node("OLD")];
let next = 0;
const anyUrl = () => nodes[next++ % nodes.length].url;

/** Of the publisher's numbers the last. */
let said = 0;

class Client {
  last = 0;
  missed = 0;
  lost = 0;
  isNew = true;
  joinedAt = Infinity;
  twice = 0;
  connects = 0;
  recovered = 0;
  constructor() {
    this.socket = io(anyUrl(), { transports: ["websocket"], forceNew: true, reconnectionDelay: 100, reconnectionDelayMax: 500 });
    this.socket.io.on("reconnect_attempt", () => {
      this.socket.io.uri = anyUrl();
    });
    this.socket.on("connect", () => {
      this.connects += 1;
      if (this.socket.recovered) this.recovered += 1;
      else {
        this.isNew = true;
        this.joinedAt = Infinity;
        this.socket.emit("join", "all", () => (this.joinedAt = said));
      }
    });
    this.socket.on("n", (n) => {
      if (n <= this.last) this.twice += 1;
      // A client that comes back as a new one knows that it may have missed something, up to its join.
      else if (this.last > 0 && this.isNew) {
        const missed = Math.max(0, Math.min(n - 1, this.joinedAt) - this.last);
        this.missed += missed;
        this.lost += n - this.last - 1 - missed;
      } else if (this.last > 0) this.lost += n - this.last - 1;
      this.isNew = false;
      this.last = Math.max(this.last, n);
    });
  }
}

const clients = Array.from({ length: CLIENTS }, () => new Client());
const all = async (what) => {
  for (let tries = 0; !clients.every(what); tries++) {
    if (tries > 400) throw new Error("clients did not come back");
    await sleep(50);
  }
};
await all((client) => client.socket.connected);
await sleep(1_000);
let speaks = true;
let pauses = false;
const publisher = new Client();
const speaking = (async () => {
  while (speaks) {
    if (!pauses) publisher.socket.emit("n", ++said);
    await sleep(1_000 / Number(values.rate));
  }
})();
await sleep(2_000);

/** The publisher goes by itself, in a pause: what it says into a connection that ends would be missed by all. */
async function movePublisher(url) {
  pauses = true;
  await sleep(500);
  const { socket } = publisher;
  socket.disconnect();
  socket.io.uri = url;
  socket.connect();
  while (!socket.connected) await sleep(20);
  await socket.emitWithAck("join", "all");
  pauses = false;
}

/** The node at this place goes, and one of the other build comes. */
async function replace(at, build) {
  const before = clients.reduce((sum, client) => sum + client.missed, 0);
  const connects = clients.reduce((sum, client) => sum + client.connects, 0);
  await movePublisher(nodes[(at + 1) % nodes.length].url);
  const [old] = nodes.splice(at, 1);
  const began = Date.now();
  old.child.kill("SIGTERM");
  await once(old.child, "exit");
  nodes.splice(at, 0, await node(build));
  await all((client) => client.socket.connected);
  await sleep(1_500);
  const missed = clients.reduce((sum, client) => sum + client.missed, 0) - before;
  const came = clients.reduce((sum, client) => sum + client.connects, 0) - connects;
  console.log(JSON.stringify({ now: nodes.map((one) => one.build), took_ms: Date.now() - began, came_back: came, missed }));
}

try {
  for (const build of ["NEW", "OLD", "NEW"]) for (const at of [0, 1, 2]) await replace(at, build);
  speaks = false;
  await speaking;
  await sleep(2_000);
  const sum = (name) => clients.reduce((all, client) => all + client[name], 0);
  const behind = clients.filter((client) => client.last < said).length;
  console.log(JSON.stringify({ said, clients: CLIENTS, lost: sum("lost"), missed_by_new_ones: sum("missed"), twice_or_out_of_order: sum("twice"), behind, connects: sum("connects"), recovered: sum("recovered") }));
  process.exitCode = sum("lost") > 0 || sum("twice") > 0 || behind > 0 ? 1 : 0;
} finally {
  for (const client of [...clients, publisher]) client.socket.close();
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
