// The stream to one gateway: numbers, what is kept until the gateway has it, and coming back after a cut.
import { FramesTransport } from "./frames.js";
import { GrpcTransport } from "./grpc.js";
import type { Command, Header, Item, Target, ToWorker, Values, Welcome } from "./messages.js";
import { Late } from "./late.js";
import { Progress } from "./progress.js";
import type { Said } from "./progress.js";
import { traceparent, within } from "./trace.js";
import { INVALID_ARGUMENT, UNAUTHENTICATED, addressOf } from "./transport.js";
import type { Fault, Transport } from "./transport.js";

const SIGN_OF_LIFE_MS = 1_000;
/** How often it looks whether the process stood still. */
const LOOK_MS = 250;
const RETRY_MS = [20, 50, 100, 200, 500, 1_000];
/** One warning for an outage that lasts. */
const UNREACHABLE_AFTER = 4;
/** `close()` waits so long for the end of what is under way. */
const FAREWELL_MS = 30_000;
/** A connection that is taken and ended without a word so often in a row may lead through something that knows gRPC only. */
const SILENT_MAX = 2;

/** Commands that the gateway has not got: while it is away, they wait here. */
const KEPT_BYTES_MAX = 64 << 20;
/** What one costs beside its bytes. */
const COMMAND_BYTES = 128;
/** What a name costs beside its letters. */
const NAME_BYTES = 16;

/** The gateway takes 16 MiB in one message, and nothing larger comes through: a command must fit. */
const COMMAND_BYTES_MAX = 12 << 20;
/** A message that has so much goes: what is behind it goes with the next one. */
const MESSAGE_BYTES = 1 << 20;

function sizeOf(command: Command): number {
  // Most are of these two kinds.
  if (command.ack) return COMMAND_BYTES + sizeOfValues(command.ack);
  const emit = command.emit ?? command.ask?.emit;
  if (emit) return COMMAND_BYTES + sizeOfValues(emit) + sizeOfTarget(emit.to);
  const { set_data, decision, verdict } = command;
  let bytes = COMMAND_BYTES + ((set_data ?? decision)?.data?.length ?? 0);
  if (verdict) bytes += (verdict.body?.length ?? 0) + sizeOfLines(verdict.headers);
  const values = command.tell ?? command.reply;
  if (values) bytes += sizeOfValues(values);
  const change = command.join ?? command.leave;
  return change ? bytes + sizeOfNames(change.rooms) + sizeOfTarget(change.of) : bytes;
}

function sizeOfValues({ args, attachments }: Values): number {
  let bytes = sizeOfText(args);
  for (const attachment of attachments) bytes += attachment.length;
  return bytes;
}

const sizeOfTarget = ({ rooms, except }: Target): number => sizeOfNames(rooms) + sizeOfNames(except);

/** Where it matters, letters are counted as what they take. */
const sizeOfText = (text: string): number => (text.length < 256 ? text.length : Buffer.byteLength(text));

function sizeOfLines(headers: Header[]): number {
  let bytes = 0;
  for (const { name, value } of headers) bytes += NAME_BYTES + name.length + value.length;
  return bytes;
}

function sizeOfNames(names: string[]): number {
  let bytes = 0;
  for (const name of names) bytes += NAME_BYTES + name.length;
  return bytes;
}

/** It holds although this worker's sockets are others' now: an event, or what each of several gateways does for its own node. */
function isStillMeant({ emit, join, leave, disconnect }: Command): boolean {
  const target: Target | undefined = (join ?? leave ?? disconnect)?.of;
  return emit !== undefined || target?.local === true || target?.without !== undefined;
}

/** Programs make any number of the others; these answer what the gateway sent, and end sockets that it has. */
const mayWait = ({ ack, decision, disconnect, ended, reply, verdict }: Command): boolean => !(ack ?? decision ?? disconnect ?? ended ?? reply ?? verdict);

export interface Tls {
  /** Certificates that the gateway's is checked against; without it those of the system. */
  ca?: Buffer | string;
  /** This worker's own certificate and key, if the gateway asks for them. */
  cert?: Buffer | string;
  key?: Buffer | string;
}

export interface Settings {
  gateway: string;
  key: string;
  backend: string;
  instance: string;
  weight: number;
  /** Another gateway is the first of this worker. */
  away: boolean;
  tls?: Tls;
  /** An event counts as handled after so long. */
  handlerTimeout: number;
}

export interface Handlers {
  item(link: Link, item: Item, number: number): void;
  /** The gateway welcomed this worker. Returns why it cannot work with it. */
  welcomed(link: Link, welcome: Welcome): Error | undefined;
  /** The gateway gave the sockets of this worker to others. */
  lost(link: Link): void;
  /** The worker wants to decide about requests for sessions. */
  readonly asks: boolean;
  /** Commands are about to be sent. */
  sending(link: Link): void;
  /** A command is refused, because too much waits for the gateway already; `first` of a row. */
  overflowed(link: Link, first: boolean): void;
  /** These events count as handled, although their handlers are not done. */
  late(events: string[], timeout_ms: number): void;
  /** A command is refused, because no message has room for it. */
  oversized(link: Link, command: Command, bytes: number): void;
  /** An event is refused, because its name is no text. */
  unsayable(link: Link, event: string): void;
  refused(link: Link, error: Error): void;
  ended(link: Link): void;
}

export class Link {
  readonly #settings: Settings;
  readonly #handlers: Handlers;
  #way: Transport | null = null;
  /** The gateway does not speak otherwise, as far as is known. */
  #grpc = false;
  #silent = 0;
  #welcomed = false;
  /** The gateway welcomed this process before: it says that it goes on, and the gateway `resumed`. */
  #known = false;
  #progress = new Progress();
  readonly #late: Late;
  /** Events that were late since the gateway began with this worker. */
  #overdue = 0;
  #commands = 0;
  /** Commands that the gateway may not have; the first has number `#commands - #kept.length + 1`. */
  #kept: Command[] = [];
  /** What they cost. */
  #keptBytes = 0;
  /** Commands refused since there was no room. */
  #refused = 0;
  /** How many of them were sent on this stream, and the bytes of the others. */
  #sent = 0;
  #unsentBytes = 0;
  #scheduled = false;
  /** Something was said in this turn of the loop, before its end. */
  #spoke = false;
  /** The number in the last `handled`. */
  #told = 0;
  /** When the process last ran, and for how long it may have stood still without a question. */
  #seen = performance.now();
  #still_ms = Infinity;
  /** The question under way whether the sockets are still this worker's; 0 = none. */
  #asked = 0;
  #asks = 0;
  /** What is done when they are, and when nothing falls, in this order. */
  #line: (() => void)[] = [];
  /** A handler has thrown, and the process has not got its error yet, or survives it. */
  #falls = false;
  #leaving = false;
  #closed = false;
  #failures = 0;
  /** Number of the gateway's node, once it is known. */
  node?: number;
  /** The gateway keeps this worker for so long after a cut. */
  #keptMs = 0;
  #brokenAt = 0;
  /** Counts turns of the loop in which something was sent. */
  turn = 1;
  /** Counts how often the gateway began anew with this worker: its numbers hold for one of them. */
  lives = 1;
  readonly #timers: NodeJS.Timeout[];

  constructor(settings: Settings, handlers: Handlers) {
    this.#settings = settings;
    this.#handlers = handlers;
    addressOf(settings);
    this.#late = new Late(settings.handlerTimeout);
    this.#timers = [setInterval(() => this.#lives(), SIGN_OF_LIFE_MS), setInterval(() => this.isInDoubt(), LOOK_MS).unref()];
    this.#attach();
  }

  get closed(): boolean {
    return this.#closed;
  }

  get welcomed(): boolean {
    return this.#welcomed;
  }

  /** What is for the sockets of its node is said to it, and to no other gateway: now, or when it is back. */
  get holdsNode(): boolean {
    if (this.#closed || this.node === undefined) return false;
    return this.#welcomed || Date.now() < this.#brokenAt + this.#keptMs;
  }

  /** Returns the command's number; nothing when the link has ended, or keeps as much as it may. */
  command(command: Command): number | undefined {
    if (this.#closed) return undefined;
    const bytes = sizeOf(command);
    if (bytes > COMMAND_BYTES_MAX) return void this.#handlers.oversized(this, command, bytes);
    const named = command.emit ?? command.ask?.emit ?? command.tell;
    if (named && !named.event.isWellFormed()) return void this.#handlers.unsayable(this, named.event);
    if (this.#keptBytes + bytes > KEPT_BYTES_MAX && mayWait(command)) return this.#refuse();
    this.#keptBytes += bytes;
    this.#unsentBytes += bytes;
    const trace = traceparent();
    if (trace) command.traceparent = trace;
    this.#kept.push(command);
    this.#commands += 1;
    this.#schedule();
    return this.#commands;
  }

  /** What the gateway has not got grew too large: said once, until there is room again. */
  #refuse(): undefined {
    this.#handlers.overflowed(this, this.#refused === 0);
    this.#refused += 1;
    return undefined;
  }

  /** The command has not left this process: it may be changed. */
  isUnsent(number: number): boolean {
    return number > this.#commands - this.#kept.length + this.#sent;
  }

  /** Tells the gateway at once what the handlers want. */
  refresh(): void {
    this.#tell();
  }

  /** The item is not handled before `release`. */
  hold(number: number): void {
    this.#progress.hold(number);
  }

  release(number: number): void {
    this.#progress.release(number);
    this.#schedule();
  }

  /** The event is not handled before this settles. */
  watch(number: number, event: string, promise: Promise<unknown>): void {
    const progress = this.#progress;
    progress.hold(number);
    this.#late.watch(event, promise, () => {
      progress.release(number);
      this.#schedule();
    });
  }

  // ---- a process that stood still ----------------------------------------------------------------------------------------------

  /** The process stood still for so long that its sockets may be another worker's: nothing is handled before the gateway has said. */
  isInDoubt(): boolean {
    const now = performance.now();
    const still_ms = now - this.#seen;
    this.#seen = now;
    if (this.#asked !== 0) return true;
    if (still_ms < this.#still_ms || this.#closed) return false;
    this.#ask();
    return true;
  }

  #ask(): void {
    this.#asked = ++this.#asks;
    this.#tell();
  }

  /** Never, if they are another worker's. */
  whenSure(act: () => void): void {
    this.#line.push(act);
  }

  #sure(): void {
    this.#asked = 0;
    this.#goOn();
  }

  #goOn(): void {
    const acts = this.#line;
    this.#line = [];
    for (const act of acts) {
      if (this.#falls || this.isInDoubt()) this.#line.push(act);
      else this.#run(act);
    }
    this.#schedule();
  }

  /** What a handler throws is the program's business, not the stream's. It may end the process, before anything else is handled. */
  #run(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#falls = true;
      process.nextTick(() => {
        setImmediate(() => {
          this.#falls = false;
          this.#goOn();
        });
        throw error;
      });
    }
  }

  #lives(): void {
    const late = this.#late.look();
    this.#overdue += late.length;
    if (late.length > 0) this.#handlers.late(late, this.#settings.handlerTimeout);
    this.isInDoubt();
    this.#flush(true);
  }

  /** Finishes what it has and hands its sockets over; `ended` follows, also when the gateway cannot be reached. */
  leave(): void {
    if (this.#closed) return;
    this.#leaving = true;
    if (!this.#way || !this.#welcomed) return this.#end();
    setTimeout(() => this.#end(), FAREWELL_MS).unref();
    this.#tell();
  }

  #attach(): void {
    this.#welcomed = false;
    const ends = {
      message: (message: ToWorker) => way === this.#way && this.#take(message),
      ended: (fault?: Fault) => this.#broken(way, fault),
    };
    const way: Transport = this.#grpc ? new GrpcTransport(this.#settings, ends) : new FramesTransport(this.#settings, ends);
    this.#way = way;
    const { backend, weight, instance, away } = this.#settings;
    way.write({ hello: { backend, weight, instance, away, received: this.#progress.received, resumes: this.#known, announces: true, version: 1 } });
  }

  #broken(way: Transport, fault?: Fault): void {
    if (way !== this.#way || this.#closed) return;
    this.#way = null;
    if (this.#welcomed) this.#brokenAt = Date.now();
    this.#welcomed = false;
    if (fault && [UNAUTHENTICATED, INVALID_ARGUMENT].includes(fault.code ?? 0)) {
      this.#shut();
      return this.#handlers.refused(this, new Error(`the gateway refuses this worker: ${fault.details}`));
    }
    if (this.#leaving) return this.#end();
    const changes = this.#changes(fault);
    if (changes && this.#grpc) return this.#attach();
    if (this.#failures === UNREACHABLE_AFTER) {
      const why = fault?.details ?? "it ended the stream";
      process.emitWarning(`cannot reach the gateway at ${this.#settings.gateway}, trying again: ${why}`, "SockeyeWarning");
    }
    const wait = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)];
    setTimeout(() => this.#closed || this.#attach(), wait);
  }

  /** An older gateway knows gRPC only. One that comes back may be a newer one. Returns whether the next way is another than this one. */
  #changes(fault?: Fault): boolean {
    const before = this.#grpc;
    this.#silent = fault?.other === "silent" ? this.#silent + 1 : 0;
    this.#grpc = !before && (fault?.other === "protocol" || this.#silent > SILENT_MAX);
    if (this.#grpc) this.#silent = 0;
    return this.#grpc !== before;
  }

  /** What it has not handled comes to others, marked, when the gateway gives this worker up. */
  giveUp(): void {
    this.#end();
  }

  #end(): void {
    if (this.#closed) return;
    this.#shut();
    this.#handlers.ended(this);
  }

  #shut(): void {
    this.#closed = true;
    this.#line = [];
    this.#timers.forEach(clearInterval);
    this.#late.clear();
    this.#way?.end();
  }

  #take(message: ToWorker): void {
    if (message.welcome) this.#welcome(message.welcome);
    this.#confirm(message.commands);
    if (message.sure !== 0 && message.sure === this.#asked) this.#sure();
    const { items } = message;
    if (items.length > 0) {
      this.isInDoubt();
      for (const item of items) this.#receive(item);
      this.#schedule();
    }
    if (message.goodbye) this.#end();
  }

  #receive(item: Item): void {
    const number = ++this.#progress.received;
    // Of an event it is looked at again, just before its listeners get it.
    const waits = this.#asked !== 0 || this.#falls || (item.what !== "event" && this.isInDoubt());
    if (waits) this.whenSure(() => this.#begin(item, number));
    else this.#begin(item, number);
  }

  #begin(item: Item, number: number): void {
    this.#progress.begun = number;
    const act = () => this.#handlers.item(this, item, number);
    if (!item.alone) return this.#run(act);
    // If this process ends over it, the gateway has to know that it had begun.
    this.hold(number);
    this.whenSure(() => {
      this.release(number);
      act();
    });
    this.#ask();
  }

  #welcome(welcome: Welcome): void {
    const error = this.#handlers.welcomed(this, welcome);
    if (error) {
      this.#shut();
      return this.#handlers.refused(this, error);
    }
    this.#failures = 0;
    this.#welcomed = true;
    this.node = welcome.node;
    this.#keptMs = welcome.kept_ms;
    // It was last heard a sign of life ago.
    this.#still_ms = welcome.silent_ms / 2 || Infinity;
    let again: Command[] = [];
    // What was said before the first welcome is not lost: it goes out now.
    if (!welcome.resumed && this.#known) {
      this.lives += 1;
      this.#progress = new Progress();
      this.#told = 0;
      this.#overdue = 0;
      this.#late.clear();
      this.#line = [];
      // Without this number the gateway is another process, which has other clients.
      if (welcome._taken) {
        const first = this.#commands - this.#kept.length + 1;
        again = this.#kept.slice(Math.max(0, welcome.taken! - first + 1)).filter(isStillMeant);
      }
      this.#commands = 0;
      this.#kept = [];
      this.#keptBytes = 0;
      this.#handlers.lost(this);
    }
    this.#known = true;
    again.forEach((command) => this.command(command));
    this.#confirm(welcome.commands);
    // Commands that the gateway has not got go again, under the same numbers.
    this.#sent = 0;
    this.#unsentBytes = this.#kept.reduce((bytes, command) => bytes + sizeOf(command), 0);
    this.#progress.again();
    this.#tell();
    // The welcome is as good as an answer.
    this.#sure();
  }

  #confirm(commands: number): void {
    const known = Math.max(0, commands - (this.#commands - this.#kept.length));
    for (let at = 0; at < known && at < this.#kept.length; at += 1) this.#keptBytes -= sizeOf(this.#kept[at]);
    if (known >= this.#kept.length) this.#kept = [];
    else if (known > 0) this.#kept.splice(0, known);
    if (this.#refused > 0 && this.#keptBytes < KEPT_BYTES_MAX / 2) this.#refused = 0;
    this.#sent = Math.max(0, this.#sent - known);
  }

  /** Handlers run in the ticks before the next turn of the loop: their commands go with the number of what they handled. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush(false);
    });
  }

  /** Says something at once. A handler may be at work: what is under way is handled later, and then all that came of it is said. */
  #tell(): void {
    if (!this.#isOpen) return;
    this.#spoke = true;
    this.#send({ handled: this.#told, beside: [], begun: this.#progress.begun });
    this.#schedule();
  }

  /** Sends what came of the items handled so far, together with the number of the last of them. No handler is at work. */
  #flush(always: boolean): void {
    if (!this.#isOpen) return;
    // The turn's first command began this, and what is said now is of all of them.
    if (traceparent()) within("", () => this.#handlers.sending(this));
    else this.#handlers.sending(this);
    if (this.#spoke) this.turn += 1;
    this.#spoke = false;
    if (this.#sent === this.#kept.length && !this.#progress.changed && !always) return;
    this.turn += 1;
    this.#send(this.#progress.next());
    if (this.#progress.changed) this.#schedule();
  }

  get #isOpen(): boolean {
    return this.#way !== null && this.#welcomed && !this.#closed;
  }

  /** Items are handled when all that came of them is said, and a worker that leaves says nothing behind that. */
  #send(said: Said): void {
    while (this.#unsentBytes > MESSAGE_BYTES) this.#say({ handled: this.#told, beside: [], begun: 0 }, false);
    this.#told = said.handled;
    this.#say(said, this.#leaving);
  }

  /** One message, with as many commands as it should have. */
  #say({ handled, beside, begun }: Said, leaving: boolean): void {
    const first = this.#commands - this.#kept.length + this.#sent + 1;
    const commands = this.#next();
    const openings = this.#handlers.asks;
    const [overdue, asks] = [this.#overdue || undefined, this.#asked || undefined];
    this.#way?.write({ handled, first, commands, leaving, openings, beside, begun: begun > handled ? begun : undefined, overdue, asks });
  }

  #next(): Command[] {
    let end = this.#kept.length;
    let bytes = this.#unsentBytes;
    if (bytes > MESSAGE_BYTES) for ([end, bytes] = [this.#sent, 0]; end < this.#kept.length && bytes < MESSAGE_BYTES; end++) bytes += sizeOf(this.#kept[end]);
    const commands = this.#kept.slice(this.#sent, end);
    this.#sent = end;
    this.#unsentBytes = end === this.#kept.length ? 0 : this.#unsentBytes - bytes;
    return commands;
  }
}
