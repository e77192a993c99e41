// Stock socket.io-client, each version over each way of using the transports.
import { io as io484 } from "socket.io-client";
import { io as io472 } from "socket.io-client-4.7.2";
import { io as io462 } from "socket.io-client-4.6.2";
import io250 from "socket.io-client-2.5.0";
import { url as base } from "./target.js";
import { within } from "./patience.js";

const VERSIONS = { "4.8.4": io484, "4.7.2": io472 };
/** The first versions that recover. */
const RECOVERING = { ...VERSIONS, "4.6.2": io462 };
const WEBTRANSPORT = { "webtransport only": ["webtransport"], "polling with upgrade to webtransport": ["polling", "webtransport"] };
const TRANSPORTS = { "polling only": ["polling"], "websocket only": ["websocket"], "polling with upgrade": ["polling", "websocket"] };

/** Every combination, as { name, version, transports, connect, create }. */
export const COMBINATIONS = combinations(VERSIONS);
/** The same of all versions that come back to what they missed. */
export const RECOVERING_COMBINATIONS = combinations(RECOVERING);

/** They need a `WebTransport`, and a server that has it. One version: a browser takes its time. */
export const WEBTRANSPORT_COMBINATIONS = combinations({ "4.8.4": io484 }, WEBTRANSPORT);

/** The last version of protocol 3. */
export const EIO3_COMBINATIONS = combinations({ "2.5.0": io250 });

function combinations(versions, ways = TRANSPORTS) {
  return Object.entries(versions).flatMap(([version, io]) =>
    Object.entries(ways).map(([way, transports]) => new Combination(version, io, way, transports)),
  );
}

function Combination(version, io, way, transports) {
  this.name = `socket.io-client ${version}, ${way}`;
  this.version = version;
  this.transports = transports;
  this.upgrades = transports.length > 1;
  this.usesWebTransport = transports.includes("webtransport");
  /** A browser that is slow to read how a session of WebTransport ends hears of a lost connection. Both times clients come back. */
  this.lost = this.usesWebTransport ? /^transport (close|error)$/ : /^transport close$/;

  /** A socket of its own connection that is still connecting; closed with the test. */
  this.create = (t, namespace = "/lab", { from = base, ...options } = {}) => {
    const socket = io(from + namespace, { transports, forceNew: true, reconnection: false, ...options });
    t.after(() => (socket.io._close ?? socket.io.close).call(socket.io));
    return socket;
  };

  /** A connected socket. */
  this.connect = async (t, namespace, options) => {
    const socket = this.create(t, namespace, options);
    await connected(socket);
    return socket;
  };
}

export function connected(socket) {
  const outcome = new Promise((resolve, reject) => socket.once("connect", resolve).once("connect_error", (error) => reject(explained(error))));
  return within(outcome, `${socket.nsp} to connect`);
}

/** A failed request says only `xhr post error`; its cause has what the server said. */
function explained(error) {
  const { status, responseText, statusText } = error.context ?? {};
  if (status !== undefined) error.cause = `${error.description}: status ${status}, ${responseText || statusText}`;
  return error;
}

/** The arguments of the socket's next `event`. */
export function once(socket, event, ms) {
  return within(new Promise((resolve) => socket.once(event, (...args) => resolve(args))), `event ${event}`, ms);
}

/** Collects the first argument of each `event`; `list` grows as they come. */
export function record(socket, event) {
  const list = [];
  socket.on(event, (value) => list.push(value));
  return list;
}

/** Emits and resolves to the ack's arguments. */
export function ask(socket, ...args) {
  const answer = new Promise((resolve) => socket.emit(...args, (...reply) => resolve(reply)));
  return within(answer, `the ack of ${args[0]}`);
}

/** All that the server sent so far has arrived once this resolves: answers keep their order. */
export const settled = (socket) => ask(socket, "echo", "settled");

/** Resolves when the connection has moved up from polling. */
export async function upgraded(socket) {
  const { engine } = socket.io;
  if (engine.transport.name !== "polling") return;
  await within(new Promise((resolve) => engine.once("upgrade", resolve)), "the upgrade");
}

/**
 * Keeps a client that was just created on polling until the returned function is called. On
 * loopback the upgrade would else be over before the first event, and its window untested.
 */
export function holdUpgrade(socket) {
  const { engine } = socket.io;
  const method = "_probe" in engine ? "_probe" : "probe";
  const held = [];
  const probe = engine[method].bind(engine);
  engine[method] = (...args) => held.push(args);
  return () => held.splice(0).forEach((args) => probe(...args));
}
