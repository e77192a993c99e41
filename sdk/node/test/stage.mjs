// What tests stand on: the real gateway with a configuration of theirs, servers of this library, stock clients.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { io as connect } from "socket.io-client";
import { Server } from "@sockeye/server";
import { freePort } from "../../../conformance/ports.mjs";

export const BINARY = process.env.SOCKEYE_BIN ?? fileURLToPath(new URL("../../../target/debug/sockeye", import.meta.url));
const [, KEY] = execFileSync(BINARY, ["api-key", "cook"], { encoding: "utf8" }).match(/(sockeye_\S+)/);
const digest = createHash("sha256").update(KEY).digest("hex");

/** The most that a test waits for one thing. */
const PATIENCE_MS = 60_000;

/** `backend`: lines of the backend's table; `tables`: whole ones; `listen`: where workers attach. */
export async function stage(backend = "", namespaces = "", tables = "", listen = "127.0.0.1:0") {
  const file = join(mkdtempSync(join(tmpdir(), "sockeye-")), "sockeye.toml");
  const key = `api_keys = ["cook:${digest}"]\n`;
  writeFileSync(
    file,
    `profile = "socket.io"\n[workers]\nlisten = "${listen}"\n[log]\nformat = "json"\n[admin]\n${key}[backends.kitchen]\n${key}${backend}\n` +
      `[namespaces."/"]\nbackend = "kitchen"\n${namespaces}\n[namespaces."*"]\nbackend = "kitchen"\n${tables}\n`,
  );
  const child = spawn(BINARY, ["--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  let addresses;
  for await (const line of createInterface({ input: child.stderr })) {
    if (!line.includes('"listening"')) continue;
    addresses = JSON.parse(line);
    break;
  }
  if (!addresses) throw new Error(`the gateway ended before it listened: ${file}`);
  child.stderr.resume();
  const url = `http://${addresses.addresses.split(",")[0]}`;
  const servers = [];
  const kill = async () => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  };
  return {
    url,
    admin: `http://${addresses.admin}`,
    workers: addresses.workers,
    number: addresses.node,
    stop: (signal) => (signal === "SIGSTOP" ? freeze(child) : child.kill(signal)),
    /** Takes the key of the workers out of the configuration. */
    expel() {
      writeFileSync(file, readFileSync(file, "utf8").replaceAll(digest, "0".repeat(64)));
      child.kill("SIGHUP");
    },
    key: KEY,
    /** A server in this process, and whatever the test says of it. */
    async server(options = {}, prepare = () => {}) {
      const io = new Server({ gateway: addresses.workers, key: KEY, backend: "kitchen", ...options });
      servers.push(io);
      prepare(io);
      await io.ready;
      return io;
    },
    open: (namespace = "/", options = {}) => connect(`${url}${namespace}`, { forceNew: true, reconnection: false, ...options }),
    async close() {
      await Promise.all(servers.map((io) => io.close()));
      await kill();
    },
    /** Returns when nothing of it is there any more. */
    kill,
  };
}

/** Returns when each thread stands still: on a busy machine the others run on until one of them has seen the signal. */
export function freeze(child) {
  child.kill("SIGSTOP");
  const states = () => readdirSync(`/proc/${child.pid}/task`).map((id) => readFileSync(`/proc/${child.pid}/task/${id}/stat`, "utf8"));
  while (states().some((stat) => /^[RSD]/.test(stat.slice(stat.lastIndexOf(")") + 2)))) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
}

/** A way to a gateway that can be cut, and lead to another one later. */
export async function way(first) {
  const ends = new Set();
  let goal = first;
  const server = createServer((near) => {
    if (goal === undefined) return near.destroy();
    const [host, port] = goal.split(":");
    const far = createConnection(Number(port), host);
    for (const [end, other] of [[near, far], [far, near]]) {
      ends.add(end);
      end.pipe(other);
      end.on("error", () => other.destroy());
      end.on("close", () => ends.delete(end) && other.destroy());
    }
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const lead = (to) => {
    goal = to;
    ends.forEach((end) => end.destroy());
  };
  const cut = () => lead(goal);
  return { cut, address: `127.0.0.1:${server.address().port}`, lead, close: () => (server.close(), lead(undefined)) };
}

/** A Redis of the test's own. */
export async function redis() {
  const port = await freePort();
  const child = spawn("redis-server", ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", mkdtempSync(join(tmpdir(), "sockeye-redis-"))].map(String), {
    // A pipe of the runner's must not be held by a server that outlives its test.
    stdio: ["ignore", "pipe", "ignore"],
  });
  await new Promise((begun, failed) => {
    child.once("spawn", begun);
    child.once("error", (error) => failed(new Error(`cannot run redis-server: ${error.message}; \`cargo xtask test\` puts one into target/tools/bin`)));
  });
  let isReady = false;
  for await (const line of createInterface({ input: child.stdout })) {
    isReady = line.includes("Ready to accept connections");
    if (isReady) break;
  }
  if (!isReady) throw new Error(`redis-server ended before it was ready, at port ${port}`);
  child.stdout.resume();
  const url = `redis://127.0.0.1:${port}`;
  return { child, url, config: `[cluster]\nadapter = "redis"\nurls = ["${url}"]\nsecret = "of this test alone"\n` };
}

/** Waits until it is so: whatever is published on a tick, or answered by a peer, may come a moment later. */
export async function until(is) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await is())) {
    if (Date.now() > end) throw new Error(`waited in vain: ${is}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A packet of Socket.IO by long-polling, and what the next poll brings. */
export async function post(url, sid, body) {
  const answer = await fetch(`${url}/socket.io/?EIO=4&transport=polling&sid=${sid}`, { method: "POST", body });
  return answer.status;
}

export async function poll(url, sid = "", headers = {}) {
  return fetch(`${url}/socket.io/?EIO=4&transport=polling${sid && `&sid=${sid}`}`, { headers });
}
