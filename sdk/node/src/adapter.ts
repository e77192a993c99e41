// One namespace's rooms and broadcasts: what Socket.IO asks of its adapter becomes commands. Rooms are known here only as far as
// sockets of this worker are in them.
import { Adapter } from "socket.io-adapter";
import type { BroadcastOptions, Room, SocketId } from "socket.io-adapter";
import { decode, encode } from "./codec.js";
import { Connection } from "./connection.js";
import { onevent } from "./dispatch.js";
import type { Dispatcher } from "./dispatch.js";
import type { Link } from "./link.js";
import type { Sum } from "./local.js";
import type { Answers, Found, Target } from "./messages.js";
import { isText, joinable, texts } from "./names.js";
import type { Packet } from "./parser.js";
import { only } from "./worker.js";
import type { Worker } from "./worker.js";

const FETCH_TIMEOUT_MS = 5_000;
const TELL_TIMEOUT_MS = 5_000;
const COUNT_TIMEOUT_MS = 5_000;
/** The gateway's answer comes a little before Socket.IO's own timer. */
const EARLY_MS = 100;
/** `setTimeout` takes no more. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;

/** Answers of several gateways, added up. */
const ANSWERS: Sum<Answers> = {
  missing: { query: 0, answers: [], missing: 1 },
  add: (one, other) => ({ query: 0, answers: [...one.answers, ...other.answers], missing: one.missing + other.missing }),
};
const FOUND: Sum<Found> = {
  missing: { query: 0, sockets: [], incomplete: true },
  add: (one, other) => ({ query: 0, sockets: [...one.sockets, ...other.sockets], incomplete: one.incomplete || other.incomplete }),
};

interface LocalSocket extends Dispatcher {
  id: string;
  acks: Map<number, (...answer: unknown[]) => void>;
  flags: { timeout?: number };
  emit(event: string, ...args: unknown[]): boolean;
  emitWithAck(event: string, ...args: unknown[]): Promise<unknown>;
  data: unknown;
  onevent(packet: Packet): void;
  _onpacket(packet: Packet): void;
  client: { _remove(socket: unknown): void };
  recovered: boolean;
  handshake: { auth: unknown };
  listenersAnyOutgoing(): unknown[];
  notifyOutgoingListeners(packet: Packet): void;
  disconnect(close?: boolean): unknown;
  onAnyOutgoing(listener: (...args: unknown[]) => void): unknown;
  prependAnyOutgoing(listener: (...args: unknown[]) => void): unknown;
}

/** Adapters by namespace. */
export type Adapters = Map<string, SockeyeAdapter>;

export class SockeyeAdapter extends Adapter {
  readonly #worker: Worker;
  readonly #adapters: Adapters;
  /** Some socket of this worker looks at what goes out. */
  #watched = false;
  /** Whom the last broadcast was for, and the turn of the loop that it was in. */
  #last?: Target;
  #lastTurn = 0;
  /** The next to ask how many servers there are waits for one count. */
  #counted = false;

  constructor(namespace: any, worker: Worker, adapters: Adapters) {
    super(namespace);
    this.#worker = worker;
    this.#adapters = adapters;
    adapters.set(namespace.name, this);
  }

  override close(): void {
    if (this.#adapters.get(this.nsp.name) === this) this.#adapters.delete(this.nsp.name);
  }

  // ---- sockets ----------------------------------------------------------------------------------------------------------------

  /** Socket.IO makes a socket with the gateway's id by this. */
  override restoreSession(pid: string): any {
    const member = this.#worker.member(pid);
    if (!member || member.stage === "ended" || member.namespace !== this.nsp.name) return null;
    const { id: sid, past } = member;
    return { sid, pid, rooms: past?.rooms ?? [], data: past ? JSON.parse(past.data) : {}, missedPackets: [] };
  }

  /** Before all middleware of the program. */
  introduce(socket: LocalSocket): void {
    const member = this.#worker.member(socket.id);
    if (!member) return;
    socket.recovered = member.past !== undefined;
    socket.handshake.auth = member.auth;
    socket.emitWithAck = emitWithAck;
    socket.onevent = onevent;
    for (const name of ["onAnyOutgoing", "prependAnyOutgoing"] as const) {
      const original = socket[name];
      const adapter = this;
      socket[name] = function (this: LocalSocket, listener) {
        adapter.#watched = true;
        return original.call(this, listener);
      };
    }
  }

  /** Its client comes back to the socket that it had. */
  returns(id: SocketId): boolean {
    const member = this.#worker.member(id);
    return member !== undefined && member.resume === undefined && member.past !== undefined;
  }

  /** A packet of its client. */
  receive(id: SocketId, packet: Packet): boolean {
    const socket = this.#socket(id);
    socket?._onpacket(packet);
    return socket !== undefined;
  }

  data(id: SocketId): unknown {
    return this.#socket(id)?.data;
  }

  /** Rooms of a socket as the gateway has them. */
  follow(id: SocketId, rooms: Room[]): void {
    if (!this.sids.has(id)) return;
    const now = new Set([id, ...rooms]);
    for (const room of [...(this.sids.get(id) ?? [])]) if (!now.has(room)) super.del(id, room);
    super.addAll(id, now);
  }

  /** Others moved it into rooms or out of them. */
  moved(id: SocketId, joined: Room[], left: Room[]): void {
    if (!this.sids.has(id)) return;
    super.addAll(id, new Set(joined));
    for (const room of left) if (room !== id) super.del(id, room);
  }

  /** Socket.IO's own timer tells those that gave a timeout; of the others, `emitWithAck` takes an error. */
  waiting(id: SocketId, ack: number): ((error: Error) => void) | undefined {
    const socket = this.#socket(id);
    if (!socket) return undefined;
    return (error) => {
      const waiting: Ack | undefined = socket.acks.get(ack);
      socket.acks.delete(ack);
      waiting?.[FAILED]?.(error);
    };
  }

  /** The sockets are other workers' now. */
  clear(): void {
    (this.nsp.sockets as Map<string, unknown>).clear();
    this.rooms.clear();
    this.sids.clear();
  }

  /** Another worker has it. Its handlers here hear no more of it, and may still end it. */
  part(id: SocketId): void {
    const socket = this.#socket(id);
    if (!socket) return;
    socket.client._remove(socket);
    (this.nsp.sockets as Map<string, unknown>).delete(id);
    super.delAll(id);
    socket.connected = false;
    const of = { namespace: this.nsp.name, rooms: [id], except: [] };
    socket.disconnect = (close = false) => (this.#worker.command({ disconnect: { of, close } }), socket);
  }

  failed(id: SocketId, error: Error): void {
    this.#socket(id)?._onerror(error);
  }

  oust(id: SocketId): void {
    this.#socket(id)?.disconnect();
  }

  #socket(id: SocketId): LocalSocket | undefined {
    return this.nsp.sockets.get(id);
  }

  /** Those of this worker that are meant. */
  #matching(opts: BroadcastOptions): LocalSocket[] {
    const except = new Set([...(opts.except ?? [])].flatMap((room) => [...(this.rooms.get(room) ?? [])]));
    const ids = opts.rooms?.size ? new Set([...opts.rooms].flatMap((room) => [...(this.rooms.get(room) ?? [])])) : this.sids.keys();
    const found: LocalSocket[] = [];
    for (const id of ids) {
      const socket = except.has(id) ? undefined : this.#socket(id);
      if (socket) found.push(socket);
    }
    return found;
  }

  /** Of these, those whose gateways took the command. */
  #reached(opts: BroadcastOptions, refused: Link[] = []): SocketId[] {
    const ids = this.#matching(opts).map(({ id }) => id);
    return refused.length === 0 ? ids : ids.filter((id) => !refused.includes(this.#worker.member(id)?.link as Link));
  }

  /** `undefined`: nobody is meant. */
  #target(opts: BroadcastOptions): Target | undefined {
    const namespace = this.nsp.name;
    if (!opts.flags?.local) {
      const rooms = texts(opts.rooms ?? []);
      const all = !opts.rooms?.size;
      return all || rooms.length > 0 ? { namespace, rooms, except: texts(opts.except ?? []), all } : undefined;
    }
    const rooms = this.#matching(opts).map(({ id }) => id);
    return rooms.length > 0 ? { namespace, rooms, except: [] } : undefined;
  }

  // ---- rooms ------------------------------------------------------------------------------------------------------------------

  override addAll(id: SocketId, rooms: Set<Room>): void {
    const member = this.#worker.member(id);
    const before = this.sids.get(id);
    const wanted = [...rooms].filter((room) => room !== id && !before?.has(room));
    const fresh = joinable(wanted);
    // Those of a socket that moves here were joined long ago.
    const moves = member?.past !== undefined && before === undefined;
    const joins = member && fresh.length > 0 && !moves;
    if (joins && member.command({ join: { of: only(member), rooms: fresh.map(String) } }) === undefined) return;
    super.addAll(id, fresh.length === wanted.length ? rooms : new Set([...rooms].filter(isText)));
  }

  override del(id: SocketId, room: Room): void {
    // A socket is addressed by its own room, which the gateway keeps.
    if (room === id) return;
    const member = this.#worker.member(id);
    const known = member && this.sids.get(id)?.has(room);
    if (known && member.command({ leave: { of: only(member), rooms: [String(room)] } }) === undefined) return;
    super.del(id, room);
  }

  override delAll(id: SocketId): void {
    const member = this.#worker.member(id);
    const rooms = [...(this.sids.get(id) ?? [])].filter((room) => room !== id);
    // A socket that ends leaves its rooms by that. Its client may come back to them, also if a handler closed the connection.
    if (member?.stage === "in" && member.connection.readyState === "open" && rooms.length > 0) member.command({ leave: { of: only(member), rooms: rooms.map(String) } });
    super.delAll(id);
    this.#worker.abandoned(id);
  }

  override addSockets(opts: BroadcastOptions, rooms: Room[]): void {
    const of = this.#target(opts);
    const joins = joinable(rooms);
    if (joins.length === 0) return;
    const refused = of && this.#worker.everywhere(of, (of) => ({ join: { of, rooms: joins.map(String) } }));
    for (const id of this.#reached(opts, refused)) super.addAll(id, new Set(joins));
  }

  override delSockets(opts: BroadcastOptions, rooms: Room[]): void {
    const of = this.#target(opts);
    const leaves = texts(rooms);
    if (leaves.length === 0) return;
    const refused = of && this.#worker.everywhere(of, (of) => ({ leave: { of, rooms: leaves } }));
    for (const id of this.#reached(opts, refused)) for (const room of rooms) if (room !== id) super.del(id, room);
  }

  override disconnectSockets(opts: BroadcastOptions, close: boolean): void {
    const own = this.#matching(opts);
    const of = this.#target(opts);
    // One by one, as in Socket.IO: those behind still hear what handlers say about the end of those before.
    own.forEach((socket) => socket.disconnect(close));
    if (of) this.#worker.everywhere(of, (of) => ({ disconnect: { of, close } }));
  }

  // ---- events -----------------------------------------------------------------------------------------------------------------

  override broadcast(packet: Packet, opts: BroadcastOptions): void {
    packet.nsp = this.nsp.name;
    const volatile = opts.flags?.volatile ?? false;
    const [first] = opts.rooms ?? [];
    const member = opts.rooms?.size === 1 && !opts.except?.size ? this.#worker.member(first) : undefined;
    // One that has ended may be away only, and its client come back: then the gateway keeps it.
    if (member && member.stage !== "ended" && member.namespace === packet.nsp) {
      // `socket.emit` comes by this way, with the acks of its own.
      this.#socket(member.id)?.notifyOutgoingListeners(packet);
      if (Connection.watched) member.connection.created(packet, opts.flags);
      return this.#worker.emit(member, packet, volatile, timeoutOf(opts));
    }
    const emit = this.#message(packet, opts, volatile);
    if (!emit || (volatile && this.#isBusy(emit.to))) return;
    [this.#last, this.#lastTurn] = [emit.to, this.#worker.turn];
    this.#worker.everywhere(emit.to, (to) => ({ emit: to === emit.to ? emit : { ...emit, to } }));
  }

  /** The last broadcast of this turn of the loop was for the same sockets: their transports are busy, as Engine.IO has it. */
  #isBusy({ rooms, except }: Target): boolean {
    const last = this.#lastTurn === this.#worker.turn ? this.#last : undefined;
    const same = (one: string[], other: string[]) => one.length === other.length && one.every((room, at) => room === other[at]);
    return last !== undefined && same(last.rooms, rooms) && same(last.except, except);
  }

  override broadcastWithAck(packet: Packet, opts: BroadcastOptions, count: (clients: number) => void, ack: (answer: unknown) => void): void {
    packet.nsp = this.nsp.name;
    const emit = this.#message(packet, opts, opts.flags?.volatile ?? false);
    // Socket.IO asks next how many servers will count: the gateway counts for all of them at once.
    this.#counted = true;
    if (!emit) return count(0);
    const timeout_ms = Math.max(1, (timeoutOf(opts) ?? 0) - EARLY_MS, Math.floor((timeoutOf(opts) ?? 0) * 0.8));
    // Another gateway may have gone, and its answer comes when the caller has stopped waiting.
    const heard = ({ answers }: Answers) => answers.forEach((answer) => ack(decode(answer)[0]));
    const done = ({ answers, missing }: Answers) => count(answers.length + missing);
    const failed = (error: Error) => console.error(`sockeye: ${error.message}`);
    this.#worker.inquire(emit.to, (query, to) => ({ ask: { query, emit: { ...emit, to }, timeout_ms } }), ANSWERS, timeout_ms, done, failed, heard);
  }

  #message(packet: Packet, opts: BroadcastOptions, volatile: boolean) {
    const [event, ...values] = packet.data as [unknown, ...unknown[]];
    if (this.#watched) this.#matching(opts).forEach((socket) => socket.notifyOutgoingListeners(packet));
    if (Connection.watched) this.#matching(opts).forEach(({ id }) => this.#worker.member(id)?.connection.created(packet, opts.flags));
    const to = this.#target(opts);
    if (!to) return undefined;
    const { args, attachments } = encode(values);
    return { to, event: String(event), args, attachments, volatile };
  }

  // ---- the cluster --------------------------------------------------------------------------------------------------------------

  override serverCount(): Promise<number> {
    if (this.#counted) {
      this.#counted = false;
      return Promise.resolve(1);
    }
    return new Promise((resolve, reject) => {
      const done = ({ servers }: { servers: number }) => resolve(servers);
      this.#worker.query((query) => ({ count: { query, namespace: this.nsp.name } }), COUNT_TIMEOUT_MS, done, reject);
    });
  }

  override serverSideEmit(packet: unknown[]): void {
    const waits = typeof packet.at(-1) === "function";
    const done = waits ? (packet.at(-1) as (error: Error | null, answers?: unknown[]) => void) : undefined;
    const [event, ...values] = waits ? packet.slice(0, -1) : packet;
    const tell = { query: 0, namespace: this.nsp.name, event: String(event), ...encode(values), timeout_ms: TELL_TIMEOUT_MS };
    if (!done) return void this.#worker.command({ tell });
    const answered = ({ answers, missing }: Answers) => {
      const responses = answers.map((answer) => decode(answer)[0]);
      if (missing === 0) return done(null, responses);
      const text = `timeout reached: only ${answers.length} responses received out of ${answers.length + missing}`;
      done(Object.assign(new Error(text), { responses }), responses);
    };
    const failed = (error: Error) => done(Object.assign(error, { responses: [] }), []);
    this.#worker.query((query) => ({ tell: { ...tell, query } }), TELL_TIMEOUT_MS, answered, failed);
  }

  /** Another server says something. */
  told(event: unknown[]): void {
    this.nsp._onServerSideEmit(event);
  }

  /** What `allSockets()` asks. */
  override async sockets(rooms: Set<Room>): Promise<Set<SocketId>> {
    const found = await this.fetchSockets({ rooms });
    return new Set(found.map(({ id }) => id));
  }

  override fetchSockets(opts: BroadcastOptions): Promise<any[]> {
    if (opts.flags?.local) return super.fetchSockets(opts);
    const of = this.#target(opts);
    if (!of) return Promise.resolve([]);
    this.#worker.saveAll();
    const timeout_ms = timeoutOf(opts) ?? FETCH_TIMEOUT_MS;
    return new Promise((resolve, reject) => {
      const done = ({ sockets, incomplete }: Found) => {
        if (incomplete) return reject(new Error("timeout reached: missing responses"));
        resolve(
          sockets.map(
            ({ socket: id, rooms, data }) => this.#socket(id) ?? { id, handshake: {}, rooms: [id, ...rooms.filter((room) => room !== id)], data: JSON.parse(data || "{}") },
          ),
        );
      };
      this.#worker.inquire(of, (query, of) => ({ fetch: { query, of, timeout_ms } }), FOUND, timeout_ms, done, reject);
    });
  }
}

/** On callbacks for acks: takes the error, if none will come. */
const FAILED = Symbol("failed");

type Ack = ((...answer: unknown[]) => void) & { [FAILED]?: (error: Error) => void };

/** Socket.IO's own never settles if the client goes, unless a timeout was given. */
function emitWithAck(this: LocalSocket, event: string, ...args: unknown[]): Promise<unknown> {
  if (!this.connected) return Promise.reject(new Error(`cannot ask "${event}": the socket has been disconnected`));
  const timed = this.flags.timeout !== undefined;
  return new Promise((resolve, reject) => {
    const answered = timed ? (error: Error | null, answer: unknown) => (error ? reject(error) : resolve(answer)) : resolve;
    this.emit(event, ...args, Object.assign(answered, { [FAILED]: reject }));
  });
}

function timeoutOf(opts: BroadcastOptions): number | undefined {
  const timeout = (opts.flags as { timeout?: number } | undefined)?.timeout;
  return timeout === undefined ? undefined : Math.min(Math.max(0, Math.ceil(timeout)), TIMEOUT_MS_MAX);
}
