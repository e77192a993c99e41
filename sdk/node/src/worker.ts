// Between the streams and Socket.IO's server: sessions and sockets of this worker, and questions that wait for answers.
import type { IncomingMessage } from "node:http";
import { Connection } from "./connection.js";
import type { Owner } from "./connection.js";
import { decode, decodeEvent, encode } from "./codec.js";
import { jsonOf } from "./data.js";
import { Doorway } from "./doorway.js";
import { Engine } from "./engine.js";
import { Link } from "./link.js";
import type { Local, Sum } from "./local.js";
import type { Handlers } from "./link.js";
import { Member } from "./member.js";
import type { Answers, Command, Connect, Event, Gone, Item, Manners, NodeGone, Resume, Target, Told, Welcome } from "./messages.js";
import { Type } from "./parser.js";
import type { Packet } from "./parser.js";
import { Queries } from "./queries.js";
import type { Sent } from "./queries.js";
import { marked } from "./mark.js";
import { within } from "./trace.js";

/** A client's answer without `socket.timeout()` is waited for so long. */
const PATIENCE_MS = 60 * 60_000;

/** A worker that leaves waits so long for middleware that works on newcomers, if it has no other sockets. */
const NEWCOMERS_MS = 5_000;
/** Ends of nodes that were told are kept in mind: each gateway may tell of 64. */
const NODES_GONE_MAX = 1_024;
/** The client sent DISCONNECT: its session may go on. */
const LEFT = "client namespace disconnect";

/** The gateway says no more than that it could not read a packet. */
const UNREADABLE = "parse error: the client sent a packet with an unknown packet type, Illegal attachments, an Illegal namespace or id, or an invalid payload";

export class Worker implements Owner, Handlers {
  readonly engine: Engine;
  /** The gateway has welcomed this worker. */
  ready: Promise<void>;
  readonly #makeLinks: (handlers: Handlers) => Link[];
  #links: Link[] = [];
  readonly #local: Local;
  readonly #connections = new Map<string, Connection>();
  readonly #members = new Map<string, Member>();
  readonly #touched = new Set<Member>();
  readonly #queries = new Queries();
  readonly #doorway: Doorway;
  #farewell?: { promise: Promise<void>; resolve(): void };
  #settle!: { resolve(): void; reject(error: Error): void };

  constructor(links: (handlers: Handlers) => Link[], engine: Engine, local: Local) {
    this.engine = engine;
    this.#doorway = new Doorway(engine);
    this.#local = local;
    this.#makeLinks = links;
    this.ready = this.#attach();
    engine.asking = () => this.#links.forEach((link) => link.refresh());
  }

  #attach(): Promise<void> {
    const ready = new Promise<void>((resolve, reject) => (this.#settle = { resolve, reject }));
    // A refusal is on the console anyway.
    ready.catch(() => {});
    this.#links = this.#makeLinks(this);
    return ready;
  }

  // ---- for adapters and the server ----------------------------------------------------------------------------------------

  member(id: string): Member | undefined {
    return this.#members.get(id);
  }

  /** Counts turns of the loop in which something was sent. */
  get turn(): number {
    return this.#links[0].turn;
  }

  /** A command that is about no socket of this worker alone. */
  command(command: Command): Sent | undefined {
    const link = this.#links.find((link) => link.welcomed) ?? this.#links.find((link) => !link.closed);
    const number = link?.command(command);
    return link && number !== undefined ? { link, number } : undefined;
  }

  /** A command about sockets anywhere. Returns the links that did not take it. */
  everywhere(target: Target, make: (target: Target) => Command): Link[] {
    const refused: Link[] = [];
    for (const { link, part } of this.#parts(target)) if (link.command(make(part)) === undefined) refused.push(link);
    return refused;
  }

  /** The gateways that are told of sockets anywhere, with their parts. Each does it for its own node, so that all commands of its link
   * keep their order there; one does it for nodes without a link. */
  #parts(target: Target): { link: Link; part: Target }[] {
    const first = this.#links.find((link) => link.welcomed) ?? this.#links.find((link) => !link.closed);
    if (!first) return [];
    // Most workers have one.
    if (this.#links.length === 1) return [{ link: first, part: target }];
    const others = new Map<number, Link>();
    for (const link of this.#links) if (link.holdsNode && link.node !== first.node) others.set(link.node!, link);
    if (others.size === 0) return [{ link: first, part: target }];
    const own = { ...target, local: true };
    const parts = [...others.values()].map((link) => ({ link, part: own }));
    return [{ link: first, part: { ...target, without: [...others.keys()] } }, ...parts];
  }

  /** Asks about sockets anywhere, and adds up what the gateways answer; `missing` stands for one that does not. `heard` gets each answer as it comes. */
  inquire<A>(
    of: Target,
    make: (query: number, of: Target) => Command,
    { missing, add }: Sum<A>,
    timeout_ms: number,
    done: (answer: A) => void,
    failed: (error: Error) => void,
    heard: (answer: A) => void = () => {},
  ): void {
    const parts = this.#parts(of);
    let [open, failures, sum] = [parts.length, 0, undefined as A | undefined];
    const answered = (answer: A) => {
      sum = sum === undefined ? answer : add(sum, answer);
      if (--open === 0) done(sum);
    };
    const lost = (error: Error) => (++failures === Math.max(parts.length, 1) ? failed(error) : answered(missing));
    if (parts.length === 0) return lost(new Error("this worker has ended"));
    const each = (answer: A) => (heard(answer), answered(answer));
    for (const { link, part } of parts) this.query((query) => make(query, part), timeout_ms, each, lost, link);
  }

  /** Asks the gateway something, which takes `timeout_ms` at most; `make` puts the number into the command. */
  query(make: (query: number) => Command, timeout_ms: number, done: (answer: any) => void, failed: (error: Error) => void, via?: Link): void {
    const send = (query: number) => {
      if (!via) return this.command(make(query));
      const number = via.command(make(query));
      return number === undefined ? undefined : { link: via, number };
    };
    this.#queries.ask(send, timeout_ms, done, failed);
  }

  /** It wants to decide about requests for sessions. */
  get asks(): boolean {
    return this.engine.asks;
  }

  /** Hands the sockets over; their clients notice nothing. */
  close(): Promise<void> {
    this.#reopening = false;
    if (!this.#farewell) {
      let resolve!: () => void;
      const promise = new Promise<void>((done) => (resolve = done));
      this.#farewell = { promise, resolve };
      for (const member of this.#members.values()) this.#save(member);
      this.#links.forEach((link) => link.leave());
      // Their events wait for middleware, and only the end of the links gives them to others.
      const links = this.#links;
      const look = setInterval(() => this.#onlyNewcomers() && links.forEach((link) => link.giveUp()), NEWCOMERS_MS).unref();
      void promise.then(() => clearInterval(look));
      // A link that was refused has ended already.
      if (this.#links.every((link) => link.closed)) {
        this.#leave();
        resolve();
      }
    }
    return this.#farewell.promise;
  }

  #onlyNewcomers(): boolean {
    return this.#members.size > 0 && [...this.#members.values()].every(({ stage }) => stage !== "in");
  }

  /** The sockets are other workers' now. */
  #leave(): void {
    this.#connections.clear();
    this.#members.clear();
    this.#touched.clear();
    this.#undecided.clear();
    this.#doorway.clear();
    this.engine.clear();
  }

  /** Attaches again after `close()`, as soon as that is done. */
  reopen(): void {
    if (!this.#farewell || this.#reopening) return;
    this.#reopening = true;
    this.ready = this.#farewell.promise.then(() => {
      if (!this.#reopening) throw new Error("the server was closed again before it had attached");
      this.#reopening = false;
      this.#farewell = undefined;
      return this.#attach();
    });
    this.ready.catch(() => {});
  }

  #reopening = false;

  // ---- from the gateway -----------------------------------------------------------------------------------------------------

  item(link: Link, item: Item, number: number): void {
    switch (item.what) {
      case "connect":
        return within(item.connect.traceparent, () => this.#connect(link, item.connect));
      case "resume":
        return this.#connect(link, item.resume.connect, item.resume);
      case "event":
        return this.#event(link, number, item.event, item.redelivered);
      case "gone":
        return this.#gone(link, number, item.gone);
      case "upgraded":
        return this.#upgraded(item.upgraded.socket, item.upgraded.transport);
      case "moved":
        return this.#moved(number, item.moved);
      case "part":
        return this.#part(link, number, item.part.socket);
      case "opening":
        return this.#doorway.asked(link, item.opening);
      case "answers":
        return this.#queries.answered(item.answers.query, item.answers);
      case "found":
        return this.#queries.answered(item.found.query, item.found);
      case "counted":
        return this.#queries.answered(item.counted.query, item.counted);
      case "told":
        return this.#told(link, item.told);
      case "node_gone":
        return this.#nodeGone(item.node_gone);
      case "failed": {
        const error = new Error(`the gateway refuses a command: ${item.failed.message}`);
        if (this.#queries.refused(link, item.failed.command, error)) return;
        console.error(`sockeye: ${error.message}`);
      }
    }
  }

  #connect(link: Link, connect: Connect, resume?: Resume): void {
    const asked = this.#doorway.take(link, connect.opening);
    this.#enter(connect, (connection) => new Member(connection, link, connect, resume), resume !== undefined, asked);
  }

  /** Brings a socket into its session. One that comes from another worker hears of its end when its handlers are there: a session that was closed
   * before is not its own. `key`: the session's, or one of its own. */
  #enter(connect: Connect, join: (connection: Connection) => Member, resumes: boolean, asked?: IncomingMessage, key = connect.session): void {
    const there = this.#connections.get(key);
    const known = resumes && there?.readyState !== "open" ? undefined : there;
    const connection = known ?? new Connection(connect, key, this, asked);
    const member = join(connection);
    const earlier = this.#members.get(member.id);
    // Its client came back with the id that it had, and the end of its connection before is not handled yet. One that begins again waits for
    // nobody: it would wait for itself.
    let ending = earlier !== member && earlier?.leaving ? earlier : undefined;
    this.#members.set(member.id, member);
    const begin = () => {
      if (connection.readyState !== "open") return member.stage === "resuming" ? this.#again(member) : this.#refuse(member, "the session has ended");
      // The same client left this namespace a moment ago: what middleware and handlers make of that comes first.
      const before = connection.members.get(member.namespace) ?? ending;
      ending = undefined;
      if (before) {
        connection.waiting += 1;
        return before.whenOver(() => ((connection.waiting -= 1), begin()));
      }
      connection.members.set(member.namespace, member);
      member.begun = true;
      connection.receive({ type: Type.Connect, nsp: member.namespace, data: member.claim });
    };
    const waiting = this.#undecided.get(connection);
    if (waiting) return void waiting.push({ member, begin });
    if (known) return begin();
    this.#connections.set(key, connection);
    this.engine.add(connection, this.#connections.size);
    this.#undecided.set(connection, [{ member, begin }]);
    if (asked) return this.#decided(connection);
    this.engine.admit(connection.request, ({ admit, message }) => this.#decided(connection, admit ? undefined : new Error(message)));
  }

  /** Its session was closed here before its handlers were there: they are called in one where it is alone, so that no other ends that. */
  #again(member: Member): void {
    const { connection, resume } = member;
    if (this.#members.get(member.id) !== member || member.stage !== "resuming") return;
    if (member.returned || !resume) return this.#drop(member);
    member.returned = true;
    if (connection.members.get(member.namespace) === member) connection.members.delete(member.namespace);
    this.#forget(connection);
    this.#enter(resume.connect, (connection) => member.into(connection), true, undefined, `${connection.id} ${member.id}`);
  }

  /** Socket.IO lets nobody in on a connection that was closed meanwhile. */
  abandoned(id: string): void {
    const member = this.#members.get(id);
    if (member?.stage === "resuming" && member.connection.readyState !== "open") setImmediate(() => this.#again(member));
  }

  /** Sockets of sessions about which the engine has not decided. */
  readonly #undecided = new Map<Connection, { member: Member; begin(): void }[]>();

  #decided(connection: Connection, error?: Error): void {
    const waiting = this.#undecided.get(connection);
    // The session has ended meanwhile.
    if (!waiting) return;
    this.#undecided.delete(connection);
    if (error) {
      this.#forget(connection);
      return waiting.forEach(({ member }) => this.#refuse(member, error.message));
    }
    this.engine.emit("connection", connection);
    waiting.forEach(({ begin }) => begin());
  }

  #refuse(member: Member, message: string): void {
    if (member.stage === "asked") member.link.command({ decision: { socket: member.id, admit: false, message, data: "" } });
    if (member.stage === "resuming") member.link.command({ disconnect: { of: only(member), close: false } });
    this.#drop(member);
  }

  #event(link: Link, number: number, event: Event, redelivered: boolean): void {
    const member = this.#members.get(event.socket);
    if (!member) return;
    const { ack } = event;
    const act = () => {
      if (member.stage !== "in") return;
      const data = decodeEvent(event.event, event);
      this.#touched.add(member);
      this.#receive(member, { type: Type.Event, nsp: member.namespace, data, id: ack === 0 ? undefined : ack, link, number });
    };
    member.take(number, () => within(event.traceparent, () => marked(redelivered, act)));
  }

  /** What comes is handled one by one, in its order. Socket.IO's client would put each packet into a tick of its own, and all that are read at once
   * would be there at once: the garbage collector then has most of the work. */
  #receive(member: Member, packet: Packet): void {
    const { connection, namespace, id } = member;
    if (connection.isOverheard) return connection.receive(packet);
    connection.arrived(packet);
    if (!this.#local.receive(namespace, id, packet)) connection.emit("data", packet);
  }

  #gone(link: Link, number: number, { socket, reason, rooms }: Gone): void {
    const member = this.#members.get(socket);
    if (!member) return;
    member.leaving = true;
    // Events before it are handled in later ticks of this turn.
    link.hold(number);
    setImmediate(() => {
      const { connection } = member;
      const leaves = reason === LEFT && this.#membersOf(connection).length + connection.waiting > 1;
      if (member.stage === "asked" && !leaves) {
        // Middleware that still works on it hears of it by the connection.
        link.release(number);
        return this.#end(connection, reason === LEFT ? "transport close" : reason);
      }
      // Middleware may work on it for long: no other client waits for that.
      if (member.stage === "asked" && connection.readyState === "open") {
        link.release(number);
        return member.later(() => this.#finish(member, reason, rooms));
      }
      member.take(number, () => {
        link.release(number);
        this.#finish(member, reason, rooms);
      });
    });
  }

  #moved(number: number, { socket, joined, left }: Item["moved"]): void {
    const member = this.#members.get(socket);
    member?.take(number, () => this.#local.moved(member.namespace, socket, joined, left));
  }

  /** Another worker gets the socket. A session of whose sockets none is left here is no business of this worker. */
  #part(link: Link, number: number, socket: string): void {
    const ended = () => void link.command({ ended: { socket } });
    const member = this.#members.get(socket);
    if (!member) return ended();
    const { connection } = member;
    member.take(number, () => {
      if (member.stage === "away") return;
      // Its handlers have heard of its end, or hear of it in this turn.
      if (member.stage !== "in" || connection.readyState !== "open") return ended();
      this.#save(member);
      this.#touched.delete(member);
      member.part();
      connection.members.delete(member.namespace);
      this.parted(member);
      if (connection.members.size === 0 && connection.waiting === 0) this.#forget(connection);
      this.#giveBack(connection);
    });
    member.parting = member.stage === "resuming";
    this.#giveBack(connection);
  }

  /** Middleware may never be done with a socket that came and is to go again. When nothing else of its session is here, it goes: Socket.IO lets nobody in on a
   * connection that is closed, and no handler hears of that. */
  #giveBack(connection: Connection): void {
    const members = this.#membersOf(connection);
    if (connection.waiting > 0 || !members.every(({ stage, parting }) => parting && stage === "resuming")) return;
    if (members.length > 0) connection.readyState = "closed";
    this.#undecided.delete(connection);
    for (const member of members) {
      this.#members.delete(member.id);
      this.#touched.delete(member);
      member.giveBack();
    }
    connection.members.clear();
    this.#forget(connection);
  }

  /** Set by the server, which knows its sockets. */
  parted: (member: Member) => void = () => {};

  #upgraded(socket: string, transport: string): void {
    const member = this.#members.get(socket);
    if (!member) return;
    // Handlers of a connection that came with the same message are there at the end of this turn.
    if (member.stage === "in") member.connection.upgrade(transport);
    else setImmediate(() => member.connection.upgrade(transport));
  }

  #finish(member: Member, reason: string, rooms: string[]): void {
    if (member.stage === "ended" || member.stage === "away") return;
    const { connection, namespace } = member;
    const single = reason === LEFT || reason === "server namespace disconnect";
    // Another worker's handlers know of it: those of this one hear of its coming, and then of its end.
    const late = single || connection.readyState !== "open" ? undefined : this.#membersOf(connection).find(({ stage }) => stage === "resuming");
    if (late) return late.later(() => this.#finish(member, reason, rooms));
    this.#local.follow(namespace, member.id, rooms);
    if (reason === "parse error") for (const { id, namespace } of connection.members.values()) this.#local.failed(namespace, id, new Error(UNREADABLE));
    // Its later output reaches nobody: the client is gone.
    member.stage = "ended";
    if (reason === LEFT) {
      connection.receive({ type: Type.Disconnect, nsp: namespace });
      process.nextTick(() => this.#drop(member));
    } else if (reason === "server namespace disconnect") {
      this.ousted(member);
      this.#drop(member);
    } else {
      this.#end(connection, reason);
    }
  }

  /** A worker, a rule or an operator ended it. Set by the server, which knows its sockets. */
  ousted: (member: Member) => void = () => {};

  #told(link: Link, told: Told): void {
    let waits = told.told !== 0;
    const { lives } = link;
    const answer = (...values: unknown[]) => {
      if (waits && link.lives === lives) link.command({ reply: { told: told.told, ...encode(values) } });
      waits = false;
    };
    const args = decodeEvent(told.event, told);
    this.#local.told(told.namespace, waits ? [...args, answer] : args);
  }

  /** Ends of nodes that were told, the oldest first. */
  readonly #nodesGone = new Set<string>();

  /** Each gateway of this worker tells of it. */
  #nodeGone({ node, life }: NodeGone): void {
    const end = `${node} ${life}`;
    if (this.#nodesGone.has(end)) return;
    this.#nodesGone.add(end);
    const [oldest] = this.#nodesGone;
    if (this.#nodesGone.size > NODES_GONE_MAX) this.#nodesGone.delete(oldest);
    this.#local.nodeGone(node);
  }

  // ---- from Socket.IO -------------------------------------------------------------------------------------------------------

  written(connection: Connection, packet: Packet, { volatile = false }: { volatile?: boolean }): void {
    const member = connection.members.get(packet.nsp);
    if (!member) return;
    switch (packet.type) {
      case Type.Connect:
        this.#touched.add(member);
        return member.admit();
      case Type.ConnectError:
        return this.#deny(member, packet.data);
      case Type.Disconnect:
        return this.#disconnect(member);
      case Type.Ack:
      case Type.BinaryAck: {
        this.#save(member);
        const { args, attachments } = encode(packet.data);
        return void member.command({ ack: { socket: member.id, ack: packet.id as number, args, attachments } });
      }
      default:
        return this.emit(member, packet, volatile);
    }
  }

  /** An event for one socket. */
  emit(member: Member, packet: Packet, volatile: boolean, timeout?: number): void {
    // As Engine.IO does: what was written in this turn of the loop is on its way, and the client cannot take more this instant.
    const { turn } = member.link;
    if (volatile && member.connection.wrote === turn) return;
    member.connection.wrote = turn;
    const [event, ...values] = packet.data as [unknown, ...unknown[]];
    const { args, attachments } = encode(values);
    const emit = { to: only(member), event: String(event), args, attachments, volatile };
    this.#touched.add(member);
    const { id } = packet;
    if (id === undefined) return void member.command({ emit });
    const timeout_ms = timeout ?? PATIENCE_MS;
    const failed = this.#local.waiting(member.namespace, member.id, id) ?? (() => {});
    if (member.stage !== "in") return void (member.whenIn(() => this.emit(member, packet, volatile, timeout)) || failed(new Error("the socket is not connected")));
    const done = ({ answers: [answer] }: Answers) => {
      if (!answer) return failed(new Error("the client did not answer, or has gone"));
      if (member.stage !== "in") return failed(new Error("the socket has been disconnected"));
      this.#receive(member, { type: Type.Ack, nsp: member.namespace, id, data: decode(answer) });
    };
    this.query((query) => ({ ask: { query, emit, timeout_ms } }), timeout_ms, done, failed, member.link);
  }

  #deny(member: Member, error: { message?: string; data?: unknown } | undefined): void {
    if (member.stage === "asked") {
      const data = error?.data === undefined ? "" : (JSON.stringify(error.data) ?? "");
      member.link.command({ decision: { socket: member.id, admit: false, message: error?.message ?? "", data } });
    } else if (member.stage === "resuming") {
      member.link.command({ disconnect: { of: only(member), close: false } });
    }
    this.#drop(member);
    if (member.connection.members.size === 0) this.#end(member.connection, "forced close");
  }

  #disconnect(member: Member): void {
    const command: Command = { disconnect: { of: only(member), close: false } };
    const number = member.command(command);
    if (number) member.ending = { command, number };
    this.#drop(member);
  }

  closed(connection: Connection): void {
    const members = [...connection.members.values(), ...(this.#parting.get(connection) ?? [])];
    for (const member of members) {
      const { ending, link } = member;
      // `socket.disconnect(true)` ends each namespace and then the session: one command does both.
      if (ending && link.isUnsent(ending.number) && ending.command.disconnect) {
        ending.command.disconnect.close = true;
        break;
      }
      if (member.stage === "asked") {
        this.#refuse(member, "the worker closed the session");
      } else if (member.stage !== "ended") {
        // As Engine.IO does: no DISCONNECT packet. The gateway knows of each that it was this worker.
        link.command({ disconnect: { of: only(member), close: true, drop: true } });
      }
    }
  }

  /** Members that ended in this turn of the loop. */
  readonly #parting = new Map<Connection, Member[]>();

  #drop(member: Member): void {
    if (this.#members.get(member.id) === member) this.#members.delete(member.id);
    this.#touched.delete(member);
    const { connection } = member;
    if (connection.members.get(member.namespace) === member) connection.members.delete(member.namespace);
    member.drop();
    const parting = this.#parting.get(connection);
    if (parting) return void parting.push(member);
    this.#parting.set(connection, [member]);
    setImmediate(() => {
      this.#parting.delete(connection);
      // A session of whose sockets none is here is no business of this worker.
      if (connection.members.size === 0 && connection.waiting === 0) this.#end(connection, "transport close");
      else this.#giveBack(connection);
    });
  }

  #end(connection: Connection, reason: string): void {
    const all = this.#membersOf(connection);
    const early = all.filter(({ stage }) => stage === "resuming");
    const members = all.filter(({ stage }) => stage !== "resuming");
    this.#undecided.delete(connection);
    for (const member of members) member.stage = "ended";
    connection.end(reason);
    for (const member of members) this.#drop(member);
    this.#forget(connection);
    // Socket.IO says by `abandoned` when it is done with the others.
    for (const member of early) if (!member.begun) this.#again(member);
  }

  #membersOf(connection: Connection): Member[] {
    const undecided = this.#undecided.get(connection) ?? [];
    return [...connection.members.values(), ...undecided.map(({ member }) => member)];
  }

  #forget(connection: Connection): void {
    if (this.#connections.get(connection.key) === connection) this.#connections.delete(connection.key);
    this.engine.remove(connection, this.#connections.size);
  }

  #save(member: Member): void {
    if (member.stage !== "in") return;
    const value = this.#local.data(member.namespace, member.id);
    // Most sockets have none.
    if (value === undefined || (member.said === "{}" && isEmpty(value))) return;
    const data = jsonOf(value, member);
    if (data === undefined || data === member.said) return;
    if (member.command({ set_data: { socket: member.id, data } }) !== undefined) member.said = data;
  }

  /** Adapters fetch after what was said before. */
  saveAll(): void {
    for (const member of this.#touched) this.#save(member);
  }

  // ---- from links -------------------------------------------------------------------------------------------------------------

  sending(link: Link): void {
    for (const member of this.#touched) {
      if (member.link !== link) continue;
      this.#touched.delete(member);
      this.#save(member);
    }
  }

  lost(link: Link): void {
    for (const member of [...this.#members.values()]) if (member.link === link && member.stage === "resuming") this.#drop(member);
    for (const connection of [...this.#connections.values()]) {
      if (this.#membersOf(connection).some((member) => member.link === link)) this.#end(connection, "transport close");
    }
    this.#doorway.lost(link);
    this.#queries.fail(link);
  }

  /** Commands that were not sent, because too much waited for the gateway, or one was too large, or named what is no text. */
  dropped = 0;

  /** Events that counted as handled although their handlers were not done. */
  overdue = 0;

  late(events: string[], timeout_ms: number): void {
    this.overdue += events.length;
    const text = `${events.length} events count as handled after ${timeout_ms} ms, although their handlers are not done (the last: "${events.at(-1)}"): a crash would lose them now (io.overdue counts them, the option handlerTimeout sets the time)`;
    process.emitWarning(text, "SockeyeWarning");
  }

  overflowed(_: Link, first: boolean): void {
    this.dropped += 1;
    if (!first) return;
    const text = "cannot send more: 64 MiB wait for a gateway that does not take them; events, joins and leaves are dropped until it does (io.dropped counts them)";
    process.emitWarning(text, "SockeyeWarning");
  }

  /** What no message has room for. A client or server that waits for it gets an error in its place. */
  oversized(link: Link, { ack, decision, reply }: Command, bytes: number): void {
    this.dropped += 1;
    console.error(`sockeye: cannot send ${bytes} bytes in one command: the gateway takes 12 MiB`);
    const error = () => encode([{ error: "The answer is too large" }]);
    if (ack) link.command({ ack: { socket: ack.socket, ack: ack.ack, ...error() } });
    if (reply) link.command({ reply: { told: reply.told, ...error() } });
    if (decision) link.command({ decision: { ...decision, data: "" } });
  }

  unsayable(_: Link, event: string): void {
    this.dropped += 1;
    console.error(`sockeye: cannot send the event ${JSON.stringify(event)}: its name has half of a surrogate pair, which is no text`);
  }

  refused(link: Link, error: Error): void {
    console.error(`sockeye: ${error.message}`);
    this.#settle.reject(error);
    // Its sockets are other workers' now, or nobody's: their handlers here hear of their end.
    this.lost(link);
    this.ended(link);
  }

  ended(link: Link): void {
    this.#queries.fail(link);
    if (!this.#farewell || !this.#links.every((link) => link.closed)) return;
    this.#leave();
    this.#farewell.resolve();
  }

  #manners?: Manners;

  /** Why this worker does not suit the gateway that it is attached to. */
  check(): Error | undefined {
    return this.#manners && this.compare(this.#manners);
  }

  welcomed(_: Link, welcome: Welcome): Error | undefined {
    this.#manners = welcome.manners ?? undefined;
    if (this.#manners?.path) this.engine.path = this.#manners.path;
    const error = this.check();
    if (!error) this.#settle.resolve();
    return error;
  }

  /** Compares options with what the gateway does. Set by the server. */
  compare: (manners: Manners) => Error | undefined = () => undefined;
}

/** A plain object without anything in it. */
function isEmpty(value: unknown): boolean {
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return false;
  for (const _ in value) return false;
  return true;
}

/** The one socket as a target. */
export function only({ namespace, id }: Member): { namespace: string; rooms: string[]; except: string[] } {
  return { namespace, rooms: [id], except: [] };
}
