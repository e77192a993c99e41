// One session as Socket.IO's `Client` sees it: what an engine's socket is in its own server. The gateway holds the real one.
import { EventEmitter } from "node:events";
import { IncomingMessage } from "node:http";
import type { Socket as NetSocket } from "node:net";
import type { Member } from "./member.js";
import { encode } from "./codec.js";
import type { Engine } from "./engine.js";
import type { Connect, Header } from "./messages.js";
import { Type } from "./parser.js";
import type { Packet } from "./parser.js";

/** What a connection tells of itself, and asks for. */
export interface Owner {
  readonly engine: Engine;
  written(connection: Connection, packet: Packet, options: { volatile?: boolean }): void;
  closed(connection: Connection): void;
}

/** Of these lines, Node keeps the first one: a proxy's must not be joined with a client's. */
const FIRST_COUNTS = new Set(
  "age authorization content-length content-type etag expires from host if-modified-since if-unmodified-since last-modified location max-forwards proxy-authorization referer retry-after server user-agent".split(" "),
);

/** The request that opened a session, made of what the gateway tells of it. */
export function requestOf({ address, headers, target }: { address: string; headers: Header[]; target: string }): IncomingMessage {
  const socket = { remoteAddress: address, encrypted: false, destroyed: false, readable: false };
  const request = new IncomingMessage(socket as unknown as NetSocket);
  for (const { name, value } of headers) {
    const key = name.toLowerCase();
    const text = value.toString("latin1");
    request.rawHeaders.push(name, text);
    const before = request.headers[key];
    if (before === undefined) request.headers[key] = key === "set-cookie" ? [text] : text;
    else if (Array.isArray(before)) before.push(text);
    else if (!FIRST_COUNTS.has(key)) request.headers[key] = `${before}${key === "cookie" ? "; " : ", "}${text}`;
  }
  request.method = "GET";
  Object.assign(request, { httpVersion: "1.1", httpVersionMajor: 1, httpVersionMinor: 1 });
  request.url = target;
  const [, query = ""] = /\?(.*)$/s.exec(target) ?? [];
  // As Engine.IO does: of a name that is repeated, the last value counts.
  Object.assign(request, { _query: Object.fromEntries(new URLSearchParams(query)) });
  return request;
}

/** A packet as it is on the wire: the text, then each attachment. */
function partsOf({ type, nsp, id, data }: Packet): (string | Buffer)[] {
  const binary = type === Type.Event || type === Type.Ack ? encode(data) : undefined;
  const attachments = binary?.attachments ?? [];
  const kind = attachments.length > 0 ? `${type + 3}${attachments.length}-` : `${type}`;
  const text = binary ? `[${binary.args}]` : data === undefined ? "" : JSON.stringify(data);
  return [`${kind}${nsp === "/" ? "" : `${nsp},`}${id ?? ""}${text}`, ...attachments];
}

const NOTHING: readonly Packet[] = Object.freeze([]);
/** Events of what is written. */
const OF_WRITES = ["packetCreate", "drain"];

class Transport extends EventEmitter {
  /** Else Socket.IO drops volatile events by itself: the gateway knows better whether the client can take one. */
  readonly writable = true;
  readonly sid: string;
  name: string;

  constructor(sid: string, name: string) {
    super();
    this.sid = sid;
    this.name = name;
  }
}

export class Connection extends EventEmitter {
  readonly id: string;
  /** Names it here. */
  readonly key: string;
  readonly protocol = 4;
  readonly request: IncomingMessage;
  readonly remoteAddress: string;
  readonly transport: Transport;
  readyState: "open" | "closing" | "closed" = "open";
  upgraded = false;
  upgrading = false;
  /** The last turn of the loop in which something was written to it. */
  wrote = 0;
  /** The session's sockets with this worker, by namespace. */
  readonly members = new Map<string, Member>();
  /** Its sockets that begin when the ones before them in their namespaces are over. */
  waiting = 0;
  readonly #owner: Owner;

  /** `request`: the one that this worker let open the session. */
  constructor(connect: Connect, key: string, owner: Owner, request?: IncomingMessage) {
    super();
    this.id = connect.session;
    this.key = key;
    this.request = request ?? requestOf({ ...connect, target: `${owner.engine.path}${connect.query ? `?${connect.query}` : ""}` });
    this.remoteAddress = connect.address;
    this.transport = new Transport(this.id, connect.transport || "websocket");
    this.#owner = owner;
  }

  /** The session went up to this transport; an older gateway does not name it. Each of the session's sockets tells it. */
  upgrade(transport: string): void {
    const name = transport || "websocket";
    if (this.transport.name === name) return;
    this.transport.name = name;
    this.upgraded = true;
    this.emit("upgrade", this.transport);
  }

  /** A packet from the client. */
  receive(packet: Packet): void {
    this.arrived(packet);
    this.emit("data", packet);
  }

  /** Tells those that look at packets of this one, as Engine.IO does. */
  arrived(packet: Packet): void {
    if (this.listenerCount("packet") > 0) for (const data of partsOf(packet)) this.emit("packet", { type: "message", data });
  }

  /** Others than Socket.IO's client get its packets, too. */
  get isOverheard(): boolean {
    return this.listenerCount("data") > 1;
  }

  /** What is written waits in the gateway. */
  get writeBuffer(): readonly Packet[] {
    return NOTHING;
  }

  get server(): Engine {
    return this.#owner.engine;
  }

  override on(event: string, listener: (...args: any[]) => void): this {
    if (OF_WRITES.includes(event)) Connection.watched = true;
    return super.on(event, listener);
  }

  override once(event: string, listener: (...args: any[]) => void): this {
    if (OF_WRITES.includes(event)) Connection.watched = true;
    return super.once(event, listener);
  }

  /** Some connection's packets are looked at. */
  static watched = false;

  /** Tells those that look at packets of this one, as Engine.IO does. */
  created(packet: Packet, flags: { compress?: boolean; volatile?: boolean } = {}): void {
    if (this.listenerCount("drain") > 0) setImmediate(() => this.emit("drain"));
    if (this.listenerCount("packetCreate") === 0) return;
    const options = { ...flags, compress: flags.compress !== false };
    for (const data of partsOf(packet)) this.emit("packetCreate", { type: "message", options, data });
  }

  write(packet: Packet, options: { volatile?: boolean; compress?: boolean } = {}, done?: () => void): this {
    if (this.readyState === "open") {
      if (Connection.watched) this.created(packet, options);
      this.#owner.written(this, packet, options);
    }
    if (done) process.nextTick(done);
    return this;
  }

  send(packet: Packet, options?: { volatile?: boolean }, done?: () => void): this {
    return this.write(packet, options, done);
  }

  /** Ends the session: all its namespaces and the connection. */
  close(): void {
    if (this.readyState !== "open") return;
    this.readyState = "closing";
    this.#owner.closed(this);
    setImmediate(() => this.end("forced close"));
  }

  /** It has ended. */
  end(reason: string): void {
    if (this.readyState === "closed") return;
    this.readyState = "closed";
    this.emit("close", reason);
  }
}
