// The reference peer: the conformance application on Socket.IO's own Node server. Owns the
// command line and the HTTP listeners; the handlers are in namespaces.js, the rest in endpoints.js.
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { parseArgs } from "node:util";
import { attachEcho, attachEngine, attachSocketIo, refuseOtherPaths } from "./endpoints.js";
import { installNamespaces } from "./namespaces.js";
import { joinCluster } from "./cluster.js";

const FLAGS = {
  port: { type: "string", default: "3000" },
  "ping-interval": { type: "string", default: "300" },
  "ping-timeout": { type: "string", default: "200" },
  "connect-timeout": { type: "string", default: "1000" },
  "max-payload": { type: "string", default: "1000000" },
  parser: { type: "string" },
  recovery: { type: "boolean", default: false },
  deflate: { type: "boolean", default: false },
  "allow-eio3": { type: "boolean", default: false },
  "tls-cert": { type: "string" },
  "tls-key": { type: "string" },
  redis: { type: "string" },
  adapter: { type: "string", default: "classic" },
  "sharded-mode": { type: "string", default: "dynamic" },
};

function readSettings() {
  const { values } = parseArgs({ options: FLAGS });
  return {
    port: wholeNumber("port", values.port),
    pingInterval: wholeNumber("ping-interval", values["ping-interval"]),
    pingTimeout: wholeNumber("ping-timeout", values["ping-timeout"]),
    connectTimeout: wholeNumber("connect-timeout", values["connect-timeout"]),
    maxPayload: wholeNumber("max-payload", values["max-payload"]),
    parser: oneOf("parser", values.parser, [undefined, "msgpack"]),
    recovery: values.recovery,
    deflate: values.deflate,
    allowEIO3: values["allow-eio3"],
    tls: readPair(values["tls-cert"], values["tls-key"]),
    redis: values.redis,
    adapter: oneOf("adapter", values.adapter, ["classic", "sharded", "streams"]),
    shardedMode: oneOf("sharded-mode", values["sharded-mode"], ["dynamic", "dynamic-private", "static"]),
  };
}

/** What an HTTPS server needs, if files are given. */
function readPair(cert, key) {
  if (!cert !== !key) throw new Error("--tls-cert and --tls-key: give both or neither");
  return cert && { cert: readFileSync(cert), key: readFileSync(key) };
}

function wholeNumber(flag, text) {
  if (!/^\d+$/.test(text)) throw new Error(`--${flag}: "${text}" is not a whole number, give e.g. --${flag} 300`);
  return Number(text);
}

function oneOf(flag, value, allowed) {
  if (!allowed.includes(value)) throw new Error(`--${flag}: "${value}" is unknown, give one of ${allowed.filter(Boolean).join(", ")}`);
  return value;
}

/** One application, reachable by IPv4 and IPv6: the second listener hands everything to the first. */
async function listen(server, { port, tls }) {
  await listenOn(server, port, "127.0.0.1");
  const bound = server.address().port;
  const twin = createServer(tls);
  twin.on("request", (request, response) => server.emit("request", request, response));
  twin.on("upgrade", (request, socket, head) => server.emit("upgrade", request, socket, head));
  await listenOn(twin, bound, "::1").catch((error) => {
    if (error.code !== "EADDRNOTAVAIL" && error.code !== "EAFNOSUPPORT") throw error;
  });
  return bound;
}

const createServer = (tls) => (tls ? https.createServer(tls) : http.createServer());

function listenOn(server, port, host) {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host }, resolve);
  });
}

const settings = readSettings();
const server = createServer(settings.tls);
refuseOtherPaths(server);
attachEcho(server);
attachEngine(server, settings);
const io = await attachSocketIo(server, settings);
if (settings.redis) await joinCluster(io, settings);
installNamespaces(io);
console.log(`listening ${settings.tls ? "https" : "http"}://127.0.0.1:${await listen(server, settings)}`);
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(0));
