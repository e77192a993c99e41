// What the tests of Socket.IO take for Socket.IO: `@sockeye/server`, with a gateway of its own for each server. Connections to the
// test's HTTP server go to that gateway, which has the options of the test as its configuration, and ends with the HTTP server.
const { spawnSync } = require("node:child_process");
const { createHash } = require("node:crypto");
const { mkdtempSync, rmSync, writeFileSync } = require("node:fs");
const { createServer: createHttpServer } = require("node:http");
const { connect, createServer } = require("node:net");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const library = require("../../sdk/node");

const KEY = "sockeye_of_the_tests";
const HOST = "127.0.0.1";
const folder = mkdtempSync(join(tmpdir(), "sockeye-socketio-"));
const running = new Set();
process.on("exit", () => {
  for (const pid of running) process.kill(pid, "SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** One that nobody had before: what has just ended may not have let go of its own. */
const taken = new Set();
function freePort() {
  for (;;) {
    const server = createServer().listen(0);
    const { port } = server.address();
    server.close();
    if (!taken.has(port)) return taken.add(port), port;
  }
}

const DURATIONS = { pingInterval: "ping_interval", pingTimeout: "ping_timeout", connectTimeout: "connect_timeout" };

function configuration(options, links) {
  const socketio = [];
  for (const [name, key] of Object.entries(DURATIONS)) if (options[name] !== undefined) socketio.push(`${key} = "${options[name]}ms"`);
  if (options.maxHttpBufferSize !== undefined) socketio.push(`max_http_buffer_size = "${options.maxHttpBufferSize}B"`);
  if (options.path !== undefined) socketio.push(`path = "/${options.path.replace(/^\/|\/$/g, "")}/"`);
  if (options.transports !== undefined) socketio.push(`transports = ${JSON.stringify(options.transports)}`);
  if (options.allowEIO3 !== undefined) socketio.push(`allow_eio3 = ${options.allowEIO3}`);
  if (options.serveClient !== undefined) socketio.push(`serve_client = ${options.serveClient}`);
  const { origin = "*", allowedHeaders = [] } = options.cors ?? { origin: [] };
  socketio.push(`cors = ${JSON.stringify([origin].flat().map((name) => (name === true ? "*" : name)))}`, `cors_headers = ${JSON.stringify([allowedHeaders].flat())}`);
  const recovery = options.connectionStateRecovery;
  const recovers = (namespace) => (recovery ? `[namespaces."${namespace}".recovery]\nlevel = "node"\nwindow = "${recovery.maxDisconnectionDuration ?? 120_000}ms"\n` : "");
  const digest = createHash("sha256").update(KEY).digest("hex");
  // Tests that open three clients at once want them in this order: with several shards any may be the first.
  return `profile = "socket.io"
[server]
shards = 1
[log]
format = "json"
[workers]
listen = "${HOST}:${links}"
[socketio]
${socketio.join("\n")}
[backends.tests]
api_keys = ["tests:${digest}"]
openings = ${options.allowRequest !== undefined}
[namespaces."/"]
backend = "tests"
${recovers("/")}[namespaces."*"]
backend = "tests"
${recovers("*")}`;
}

/** Waits, and nothing else happens meanwhile: a client of the next line must find the gateway. */
const START = `"$0" --config "$1" --listen "$2" --admin ${HOST}:0 < /dev/null > /dev/null 2> "$3" & pid=$!
until grep -q '"listening"' "$3"; do kill -0 $pid 2> /dev/null || { cat "$3" >&2; exit 1; }; sleep 0.02; done; echo $pid`;

class Gateway {
  links = freePort();
  port = 0;
  #pid;

  start(options) {
    this.stop();
    this.port = freePort();
    const [config, log] = ["toml", "log"].map((ending) => join(folder, `${this.port}.${ending}`));
    writeFileSync(config, configuration(options, this.links));
    const args = [process.env.SOCKEYE_BIN, config, `${HOST}:${this.port}`, log];
    const { status, stdout, stderr } = spawnSync("sh", ["-c", START, ...args], { encoding: "utf8" });
    if (status !== 0) throw new Error(`cannot start the gateway on port ${this.port}: ${stderr}`);
    this.#pid = Number(stdout);
    running.add(this.#pid);
  }

  stop() {
    if (this.#pid === undefined) return;
    process.kill(this.#pid, "SIGKILL");
    running.delete(this.#pid);
    this.#pid = undefined;
  }
}

/** Connections to the test's HTTP server go to the gateway, which ends with it. */
function lend(server, gateway) {
  const ends = new Set();
  server.removeAllListeners("connection");
  server.on("connection", (near) => {
    const far = connect(gateway.port, HOST);
    for (const [end, other] of [[near, far], [far, near]]) {
      ends.add(end);
      end.pipe(other);
      end.on("error", () => other.destroy());
      end.on("close", () => ends.delete(end) && other.destroy());
    }
  });
  const close = server.close;
  server.close = (done) => {
    close.call(server, done);
    ends.forEach((end) => end.destroy());
    gateway.stop();
    return server;
  };
  return server;
}

const isServer = (value) => typeof value === "number" || typeof value?.listen === "function";

class Server extends library.Server {
  #gateway;
  #options;

  constructor(first, second) {
    const options = { ...(isServer(first) ? second : (first ?? second)) };
    const gateway = new Gateway();
    super({ ...options, gateway: `${HOST}:${gateway.links}`, key: KEY, backend: "tests" });
    this.#gateway = gateway;
    this.#options = options;
    if (isServer(first)) this.attach(first);
  }

  attach(server, options = {}) {
    Object.assign(this.#options, { ...options, ...this.#options });
    this.#gateway.start(this.#options);
    const given = typeof server === "object" ? server : createHttpServer().listen(server);
    return super.attach(lend(given, this.#gateway), options);
  }

  listen(server, options) {
    return this.attach(server, options);
  }
}

module.exports = Object.assign((server, options) => new Server(server, options), library, { Server });
