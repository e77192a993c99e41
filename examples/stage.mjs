// Everything that an example runs on: gateways (and Redis, if there is more than one), its programs, what they need, and a front door for each gateway. What dies is
// started again.
import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "../conformance/ports.mjs";
import { Database } from "./database.mjs";
import { openFront } from "./front.mjs";
import { pythonOf } from "./python.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
/** Visitors of one hear those of the other: commands of workers act on all nodes. */
export const GATEWAYS = 2;
const WORKERS = 2;
const AGAIN_MS = 500;
/** What ends by itself so soon, twice in a row, will not live the third time. */
const AT_ONCE_MS = 5_000;
const READY_MS = 30_000;

function gatewayProgram() {
  const built = ["release", "debug"].map((profile) => here(`../target/${profile}/sockeye`));
  const found = [process.env.SOCKEYE_BIN, ...built].find((path) => path && existsSync(path));
  if (!found) throw new Error("cannot find the gateway: run `cargo build --release`, or name it in SOCKEYE_BIN");
  return found;
}

/** That of the system, or the one that `cargo xtask test` has unpacked. */
function redisProgram() {
  const unpacked = here("../target/tools/bin/redis-server");
  return existsSync(unpacked) ? unpacked : "redis-server";
}

const freePorts = (count) => Promise.all(Array.from({ length: count }, freePort));

/** A process that is started again when it ends, until it is told to stop, or ends by itself at once twice in a row. */
class Supervised {
  #start;
  #stopped = false;
  #child;
  #quickEnds = 0;
  #signal;
  #fail;
  /** Rejects when it is not started again. */
  failed = new Promise((_, reject) => (this.#fail = reject));

  constructor(program, args, env = {}, { signal = "SIGKILL", ...options } = {}) {
    this.#signal = signal;
    this.#start = () => {
      // Programs say where their pages are. No gateway is there: visitors go to the front doors.
      const child = spawn(program, args, { ...options, env: { ...process.env, ...env }, stdio: ["ignore", "ignore", "pipe"] });
      // A pipe of our own. With our stderr, a program that outlives us would keep the reader of our errors waiting.
      child.stderr.pipe(process.stderr, { end: false });
      const began = Date.now();
      child.on("error", (error) => this.#fail(new Error(`cannot run ${program}: ${error.code === "ENOENT" ? "it is not installed" : error.message}`)));
      child.on("exit", (code) => {
        // A signal is somebody's wish.
        this.#quickEnds = code !== null && Date.now() - began < AT_ONCE_MS ? this.#quickEnds + 1 : 0;
        if (this.#quickEnds === 2) this.#fail(new Error(`cannot keep ${[program, ...args].join(" ")} alive: it ended at once, twice, with code ${code}`));
        else setTimeout(() => this.#stopped || this.#startAgain(child.pid), AGAIN_MS);
      });
      this.#child = child;
    };
    this.failed.catch(() => {});
    process.once("exit", this.#atExit);
    this.#start();
  }

  #atExit = () => this.#child.kill(this.#signal);

  #startAgain(before) {
    this.#start();
    console.log(`process ${before} ended, and ${this.pid} took its place`);
  }

  get pid() {
    return this.#child.pid;
  }

  /** As a crash would. It is gone when the promise is kept. */
  async kill() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill(this.#signal);
    await ended;
  }

  async stop() {
    this.#stopped = true;
    process.off("exit", this.#atExit);
    await this.kill();
  }
}

/** A gateway that is not in its cluster yet answers 503. */
async function isReady(port) {
  let status = "no answer";
  for (const until = Date.now() + READY_MS; Date.now() < until; await sleep(50)) {
    status = await fetch(`http://127.0.0.1:${port}/`).then((answer) => answer.status, () => "no answer");
    if (Number.isInteger(status) && status !== 503) return;
  }
  throw new Error(`the gateway at port ${port} is not ready after ${READY_MS} ms: ${status}`);
}

async function answers(port) {
  for (const until = Date.now() + READY_MS; Date.now() < until; await sleep(50)) {
    const socket = connect(port, "127.0.0.1");
    const [event] = await Promise.race(["connect", "error"].map((name) => once(socket, name).then(() => [name], () => ["error"])));
    socket.destroy();
    if (event === "connect") return;
  }
  throw new Error(`nothing listens on port ${port} after ${READY_MS} ms`);
}

export const RECOVERY = '[namespaces."/".recovery]\nlevel = "node"\n';

/**
 * What an example has that others have not: `rules` of its namespace in the gateways' file, or a file of its own (`config`) for programs that call the server
 * API instead of being workers; a number of `programs`; a folder with `requirements` for Python; a `database`; a `folder` in which its programs run, with an
 * `env` of theirs.
 */
const APPS = {
  "game/index.js": { rules: 'slow_consumer = "conflate"\nconflate_by = "id"\n' },
  "cursors/index.js": { rules: 'slow_consumer = "conflate"\nconflate_by = "id"\n[namespaces."/".presence]\nenabled = true\nrooms = ["board"]\ninfo = ["name"]\n' },
  "recovery/index.js": { rules: RECOVERY },
  "dashboard/index.js": { config: "dashboard/sockeye.toml", programs: 1 },
  "postgres-chat/index.js": { database: true },
  "notifications/app.py": { config: "notifications/sockeye.toml", requirements: "notifications" },
};

/** A key, and its entry for the gateways' file. */
function newKey(sockeye, ...allowed) {
  const made = execFileSync(sockeye, ["api-key", "app", ...allowed], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  return [/sockeye_\S+/, /app:[\w:]+/].map((pattern) => made.match(pattern)[0]);
}

const fileForWorkers = (entry, rules = "") => `profile = "socket.io"
[backends.app]
api_keys = ["${entry}"]
[namespaces."/"]
backend = "app"
${rules}`;

const fileForCallers = (entry, config) => `${readFileSync(here(config), "utf8")}
[admin]
api_keys = ["${entry}"]
`;

const LOG = `[log]
level = "warn"
`;

const cluster = (redis) => `[cluster]
adapter = "redis"
urls = ["redis://127.0.0.1:${redis}"]
secret = "${randomBytes(16).toString("hex")}"
`;

export class Stage {
  #folder = mkdtempSync(join(tmpdir(), "sockeye-example-"));
  #processes = [];
  #files;
  #closed = false;
  #fail;
  urls = [];
  /** The servers of front.mjs. */
  fronts = [];
  gateways = [];
  database;
  databaseUrl;
  /** The example's own programs. */
  workers = [];
  /** Rejects when one of its processes cannot be kept alive. */
  failed = new Promise((_, reject) => (this.#fail = reject));

  /** `app` is the path of a program in this folder, or its URL. There is a gateway for each port of a front door. */
  static async open(app, fronts, needs = APPS[app]) {
    const stage = new Stage();
    try {
      await Promise.race([stage.#open(app, fronts ?? (await freePorts(GATEWAYS)), needs), stage.failed]);
    } catch (error) {
      await stage.close();
      throw error;
    }
    return stage;
  }

  async #open(app, fronts, needs = {}) {
    const { config, programs = WORKERS, requirements, rules, database, folder } = needs;
    const count = fronts.length;
    const [redis, postgres, ...rest] = await freePorts(2 + 3 * count + programs);
    const [gateways, links, admins, pages] = [0, 1, 2, 3].map((at) => rest.slice(at * count, at < 3 ? (at + 1) * count : undefined));
    if (count > 1) await this.#openRedis(redis);
    if (database) await this.#openDatabase(postgres);
    const sockeye = gatewayProgram();
    const [key, entry] = newKey(sockeye, ...(config ? ["--allow", "emit"] : []));
    const [file, secret] = ["sockeye.toml", "secret"].map((name) => join(this.#folder, name));
    writeFileSync(secret, randomBytes(48).toString("base64"));
    writeFileSync(file, (config ? fileForCallers(entry, config) : fileForWorkers(entry, rules)) + LOG + (count > 1 ? cluster(redis) : ""));
    this.gateways = gateways.map((port, at) => {
      const args = ["--config", file, "--listen", `127.0.0.1:${port}`, "--admin", `127.0.0.1:${admins[at]}`];
      return this.#run(sockeye, args, config ? {} : { SOCKEYE__WORKERS__LISTEN: `127.0.0.1:${links[at]}` });
    });
    await Promise.all([...gateways.map(isReady), ...(config ? admins : links).map(answers)]);
    const env = config
      ? { SOCKEYE: admins.map((port) => `http://127.0.0.1:${port}`).join(), SOCKEYE_API_KEY: key, SECRET_FILE: secret }
      : { SOCKEYE_GATEWAY: links.map((port) => `127.0.0.1:${port}`).join(), SOCKEYE_KEY: key, SOCKEYE_BACKEND: "app" };
    const [program, ...args] = requirements ? [pythonOf(here(requirements))] : [process.execPath, "--no-warnings=SockeyeWarning"];
    if (database) env.DATABASE_URL = this.databaseUrl;
    this.workers = pages.map((port) => this.#run(program, [...args, here(app)], { ...env, ...needs.env, PORT: String(port) }, { cwd: folder }));
    await Promise.all(pages.map(answers));
    for (const [at, port] of fronts.entries()) {
      if (this.#closed) return;
      this.fronts.push(await openFront(port, gateways[at], pages));
      this.urls.push(`http://localhost:${port}`);
    }
  }

  async #openRedis(port) {
    this.#run(redisProgram(), ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", this.#folder, "--logfile", join(this.#folder, "redis.log")]);
    await answers(port);
  }

  async #openDatabase(port) {
    this.#files = new Database(port);
    this.databaseUrl = this.#files.url;
    const { program, args, options } = this.#files.command;
    this.database = this.#run(program, args, {}, options);
    await answers(port);
  }

  #run(program, args, env, options) {
    if (this.#closed) throw new Error(`cannot start ${program}: the stage is closed`);
    const one = new Supervised(program, args.map(String), env, options);
    one.failed.catch(this.#fail);
    this.#processes.push(one);
    return one;
  }

  async close() {
    this.#closed = true;
    for (const front of this.fronts) {
      front.close();
      front.closeAllConnections();
    }
    await Promise.all(this.#processes.map((one) => one.stop()));
    this.#files?.remove();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
