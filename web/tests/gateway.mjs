// Starts and stops the gateway under test: the executable in SOCKEYE_BIN, or the release build.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../conformance/ports.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const EXIT_MS = 20_000;

/** None outlives the program that started it, whatever becomes of that. */
const living = new Set();
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

/** The program goes on for it as long as somebody waits for it, and no longer. */
function begin(file, args) {
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
  for (const part of [child, child.stdout, child.stderr]) part.unref();
  living.add(child);
  child.once("exit", () => living.delete(child));
  return child;
}

export function executable() {
  // Some start it in another folder.
  const bin = resolve(process.env.SOCKEYE_BIN ?? join(here, "../../target/release/sockeye"));
  if (!existsSync(bin)) {
    throw new Error(`no gateway at ${bin}: run \`cargo build --release\`, or set SOCKEYE_BIN`);
  }
  return bin;
}

/** Whether none of its threads runs (proc_pid_stat(5)). */
function isStopped(pid) {
  const state = (thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2)[0];
  };
  return readdirSync(`/proc/${pid}/task`).every((thread) => state(thread) === "T");
}

export class Gateway {
  /** From its start until it serves. */
  static readyMs = 15_000;

  #child;
  #output = "";
  #args;

  /**
   * One pair of ports for the life of the object, so that a restart is found by waiting clients.
   */
  static async start(...args) {
    const gateway = new Gateway();
    gateway.#args = args;
    gateway.port = await freePort();
    gateway.adminPort = await freePort();
    gateway.url = `http://127.0.0.1:${gateway.port}`;
    await gateway.restart();
    return gateway;
  }

  async restart() {
    const file = executable();
    const listen = [
      "serve",
      "--listen",
      `127.0.0.1:${this.port}`,
      "--admin",
      `127.0.0.1:${this.adminPort}`,
      ...this.#args,
    ];
    const child = begin(file, listen);
    this.#child = child;
    this.#output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (text) => (this.#output += text));
    let failure;
    child.on("error", (error) => (failure = error));
    // Behind its last words.
    let ended = false;
    child.once("close", () => (ended = true));
    const until = Date.now() + Gateway.readyMs;
    while (!(await this.#answers())) {
      if (failure) throw new Error(`cannot run the gateway ${file}: ${failure.message}`);
      if (ended) {
        const how = child.signalCode ?? child.exitCode;
        throw new Error(`the gateway ended with ${how}:\n${this.#output}`);
      }
      if (Date.now() > until) {
        await this.kill();
        throw new Error(
          `the gateway did not serve ${this.url}/ in ${Gateway.readyMs} ms:\n${this.#output}`,
        );
      }
      await sleep(30);
    }
  }

  async #answers() {
    try {
      // 503: it listens, and is not in its cluster yet.
      const response = await fetch(`${this.url}/`);
      await response.arrayBuffer();
      return response.status !== 503;
    } catch {
      return false;
    }
  }

  /** Answers nothing but keeps its connections, as an overloaded server would. */
  async freeze() {
    this.#child.kill("SIGSTOP");
    // One thread takes the signal, and stops the others when it has its turn.
    while (!isStopped(this.#child.pid)) await sleep(1);
  }

  get pid() {
    return this.#child.pid;
  }

  thaw() {
    this.#child.kill("SIGCONT");
  }

  /** Pulls the plug. */
  async kill() {
    await this.#end("SIGKILL");
  }

  /** Asks it to stop; returns the exit code. */
  async stop() {
    return await this.#end("SIGTERM");
  }

  async #end(signal) {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    const exited = once(child, "exit");
    const timer = setTimeout(() => child.kill("SIGKILL"), EXIT_MS);
    child.kill(signal);
    const [code] = await exited;
    clearTimeout(timer);
    return code;
  }
}
