// Two gateways at one Redis with a worker behind them, watched by operators: what the tests of the console with several nodes stand on.

import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { io } from "socket.io-client";
import { freePort } from "../../conformance/ports.mjs";
import { executable, Gateway } from "./gateway.mjs";
import { startRedis } from "./redis.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));

/** Programs of a test end with it, also when it fails before it stops them. */
const programs = new Set();
process.on("exit", () => {
  for (const program of programs) program.kill("SIGKILL");
});

function run(command, args, options) {
  const program = spawn(command, args, options);
  programs.add(program);
  program.once("exit", () => programs.delete(program));
  return program;
}

export class Cluster {
  static async start(nodes = 2) {
    const cluster = new Cluster();
    cluster.folder = mkdtempSync(join(tmpdir(), "sockeye-cluster-"));
    const { redis, url } = await startRedis(cluster.folder);
    programs.add(redis);
    cluster.keys = {
      ops: cluster.#makeKey("ops"),
      look: cluster.#makeKey("look", "--allow", "read"),
      meal: cluster.#makeKey("meal", "--allow", "read", "--allow", "/meal"),
    };
    cluster.cook = cluster.#makeKey("cook");
    cluster.watched = [];
    for (let n = 0; n < nodes; n += 1) await cluster.#startNode(url);
    return cluster;
  }

  #makeKey(...args) {
    const said = execFileSync(executable(), ["api-key", ...args], { encoding: "utf8" });
    const [, key, entry] = /key\s+(\S+)\s+entry\s+(\S+)/.exec(said);
    return { key, entry };
  }

  async #startNode(redis) {
    const workers = await freePort();
    const entries = Object.values(this.keys).map(({ entry }) => entry);
    const file = join(this.folder, `node-${this.watched.length}.toml`);
    writeFileSync(
      file,
      `profile = "socket.io"
[cluster]
adapter = "redis"
urls = ["${redis}"]
secret = "s"
[admin]
api_keys = [${entries.join(", ")}]
[workers]
listen = "127.0.0.1:${workers}"
[backends.kitchen]
api_keys = [${this.cook.entry}]
[namespaces."/"]
client_joins = true
[namespaces."/meal"]
backend = "kitchen"
`,
    );
    const gateway = await Gateway.start("--config", file);
    const url = `http://127.0.0.1:${gateway.adminPort}`;
    this.watched.push({ gateway, url, workers, keys: this.keys });
  }

  /** A copy of the library for workers, built: other tests may build theirs at the same time. */
  #library() {
    const root = join(HERE, "../..");
    const copy = join(this.folder, "sdk/node");
    mkdirSync(copy, { recursive: true });
    for (const name of ["src", "build.mjs", "tsconfig.json", "package.json"])
      cpSync(join(root, "sdk/node", name), join(copy, name), { recursive: true });
    symlinkSync(join(root, "sdk/node/node_modules"), join(copy, "node_modules"));
    symlinkSync(join(root, "proto"), join(this.folder, "proto"));
    execFileSync(process.execPath, ["build.mjs"], { cwd: copy, stdio: "inherit" });
    return join(copy, "dist/wrapper.mjs");
  }

  /** A worker of the first so many nodes, in a process of its own. */
  async worker(nodes = 1) {
    this.library ??= this.#library();
    const addresses = this.watched.slice(0, nodes).map(({ workers }) => `127.0.0.1:${workers}`);
    this.newest = await this.#begin(["worker.mjs", this.library, `${addresses}`, this.cook.key]);
    return this.newest;
  }

  /** An event over which worker after worker ends. From then on the first node is not well. */
  async poison(...args) {
    const [{ gateway, url }] = this.watched;
    const meal = io(`${gateway.url}/meal`, { transports: ["websocket"], forceNew: true });
    await meal.emitWithAck("order", "soup");
    meal.emit("poison", ...args);
    const isPoisoned = async () => {
      const headers = { Authorization: `Bearer ${this.keys.ops.key}` };
      const answer = await fetch(`${url}/v1/node/backends`, { headers });
      const [{ failures }] = (await answer.json()).backends;
      return failures.some(({ what }) => what === "poison event");
    };
    const isGone = () => this.newest.exitCode !== null || this.newest.signalCode !== null;
    while (!(await isPoisoned())) {
      if (isGone()) await this.worker();
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    if (isGone()) await this.worker();
    meal.disconnect();
  }

  /** So many clients over all nodes, in rooms; and one that works with the worker. */
  async crowd(count) {
    const urls = this.watched.map(({ gateway }) => gateway.url);
    return await this.#begin(["crowd.mjs", String(count), ...urls]);
  }

  async #begin([script, ...args]) {
    const stdio = ["ignore", "pipe", "inherit"];
    const program = run(process.execPath, [join(HERE, script), ...args], { stdio });
    for await (const line of createInterface({ input: program.stdout }))
      if (line === "ready") return program;
    throw new Error(`${script} ended before it was ready`);
  }

  async stop() {
    for (const { gateway } of this.watched) await gateway.kill();
    for (const program of programs) program.kill("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }
}
