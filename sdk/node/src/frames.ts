// The cheap way to a gateway: messages behind their lengths, over TCP, TLS or a Unix socket. One write for all that one turn of the loop says.
import { connect, isIP } from "node:net";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { FromWorker } from "./messages.js";
import { MESSAGE_BYTES_MAX, addressOf } from "./transport.js";
import type { Ends, Fault, Goal, Transport } from "./transport.js";
import { wire } from "./wire.js";
import { Writer } from "./writer.js";

/** The first bytes of both ends. */
const MAGIC = Buffer.from("SOCKEYE1");
/** Kind of a frame, and length of what follows. */
const HEAD_BYTES = 5;
const [MESSAGE, END, PING, PONG, KEY] = [0, 1, 2, 3, 4];
/** A code of gRPC, for an end without one. */
const UNKNOWN = 2;

/** A gateway that says nothing for so long is asked whether it is there, and has so long to answer. */
const QUIET_MS = 5_000;
const ANSWER_MS = 3_000;
const LOOK_MS = 1_000;
/** So long it takes at most until the gateway's first bytes are there. */
const CONNECT_MS = 10_000;
/** What is written at the end has so long to get there. */
const FAREWELL_MS = 2_000;

/** Gets the content of a frame: of these bytes, those from `at` to `end`. They are good until it returns. */
type Take = (kind: number, bytes: Buffer, at: number, end: number) => void;

/** Takes frames out of a stream of bytes. What is whole in one piece is not copied. */
export class Frames {
  readonly #take: Take;
  /** The beginning of a head or of a content, and how much of it is there. */
  #part: Buffer | null = null;
  #have = 0;
  /** Kind of the content in `#part`; nothing: it is a head. */
  #kind?: number;

  constructor(take: Take) {
    this.#take = take;
  }

  /** The first so many bytes of the chunk came. */
  push(chunk: Buffer, end = chunk.length): void {
    let at = this.#part ? this.#complete(chunk, end) : 0;
    while (at < end) {
      if (end - at < HEAD_BYTES) return void this.#keep(HEAD_BYTES, undefined, chunk, at, end);
      const kind = chunk[at];
      const length = chunk.readUInt32BE(at + 1);
      at += HEAD_BYTES;
      if (end - at < length) return void this.#keep(length, kind, chunk, at, end);
      this.#take(kind, chunk, at, at + length);
      at += length;
    }
  }

  /** Ends what an earlier piece began. Returns where the rest begins. */
  #complete(chunk: Buffer, end: number): number {
    let at = 0;
    while (this.#part) {
      const [part, kind] = [this.#part, this.#kind];
      const taken = Math.min(part.length - this.#have, end - at);
      chunk.copy(part, this.#have, at, at + taken);
      this.#have += taken;
      at += taken;
      if (this.#have < part.length) return at;
      this.#part = null;
      if (kind !== undefined) this.#take(kind, part, 0, part.length);
      else if (part.readUInt32BE(1) === 0) this.#take(part[0], part, 0, 0);
      else this.#keep(part.readUInt32BE(1), part[0], chunk, end, end);
    }
    return at;
  }

  #keep(length: number, kind: number | undefined, chunk: Buffer, at: number, end: number): void {
    if (length > MESSAGE_BYTES_MAX) throw new RangeError(`the gateway announces a message of ${length} bytes: ${MESSAGE_BYTES_MAX} are taken`);
    this.#part = Buffer.allocUnsafe(length);
    this.#kind = kind;
    this.#have = chunk.copy(this.#part, 0, at, end);
  }
}

export class FramesTransport implements Transport {
  readonly #socket: Socket;
  readonly #ends: Ends;
  readonly #writer = new Writer();
  readonly #frames = new Frames((kind, bytes, at, end) => this.#taken(kind, bytes, at, end));
  readonly #watch: NodeJS.Timeout;
  /** What came before it was clear that the other end is a gateway. */
  #greeting: Buffer | null = Buffer.alloc(0);
  #connected = false;
  #fault?: Fault;
  #ended = false;
  /** When the gateway was last heard, and when it was asked since. */
  #heard = performance.now();
  #asked = 0;

  constructor(goal: Goal, ends: Ends) {
    this.#ends = ends;
    this.#socket = open(goal, () => (this.#connected = true), (chunk, end) => this.#data(chunk, end));
    this.#socket.setNoDelay(true);
    this.#socket.on("data", (chunk: Buffer) => this.#data(chunk, chunk.length));
    this.#socket.on("error", (error) => (this.#fault ??= { details: error.message }));
    this.#socket.on("close", () => this.#close());
    this.#watch = setInterval(() => this.#look(), LOOK_MS).unref();
    this.#writer.raw(MAGIC);
    const key = Buffer.from(goal.key);
    this.#writer.raw(Buffer.from([KEY, 0, 0, key.length >> 8, key.length & 255]));
    this.#writer.raw(key);
  }

  write(message: FromWorker): void {
    const begin = this.#writer.length;
    this.#writer.byte(MESSAGE);
    this.#writer.skip(HEAD_BYTES - 1);
    try {
      wire.append(message, this.#writer);
    } catch (error) {
      // Half a message would end the link.
      this.#writer.drop();
      throw error;
    }
    this.#writer.patchLength(begin + 1, this.#writer.length - begin - HEAD_BYTES);
    this.#socket.write(this.#writer.take());
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#watch);
    this.#socket.end();
    setTimeout(() => this.#socket.destroy(), FAREWELL_MS).unref();
  }

  /** The first so many bytes of the chunk came. */
  #data(chunk: Buffer, end: number): void {
    if (this.#ended) return;
    this.#heard = performance.now();
    this.#asked = 0;
    try {
      if (this.#greeting) return this.#greeted(Buffer.concat([this.#greeting, chunk.subarray(0, end)]));
      this.#frames.push(chunk, end);
    } catch (error) {
      this.#break({ details: (error as Error).message });
    }
  }

  /** The gateway begins as this end did. An older one speaks HTTP/2 only, and says so. */
  #greeted(bytes: Buffer): void {
    const known = Math.min(bytes.length, MAGIC.length);
    if (bytes.compare(MAGIC, 0, known, 0, known) !== 0) return this.#break({ details: "it does not speak as a gateway does", other: "protocol" });
    if (bytes.length < MAGIC.length) return void (this.#greeting = bytes);
    this.#greeting = null;
    this.#frames.push(bytes.subarray(MAGIC.length));
  }

  #taken(kind: number, bytes: Buffer, at: number, end: number): void {
    if (this.#ended) return;
    if (kind === MESSAGE) this.#ends.message(wire.read(bytes, at, end));
    else if (kind === END) this.#fault = { code: at < end ? bytes[at] : UNKNOWN, details: bytes.toString("utf8", at + 1, end) };
    else if (kind !== PONG) throw new RangeError(`the gateway sent a frame of the unknown kind ${kind}`);
  }

  #look(): void {
    const now = performance.now();
    if (this.#greeting) return now < this.#heard + CONNECT_MS ? undefined : this.#doubt("it did not answer within 10 s");
    if (this.#asked !== 0) return now < this.#asked + ANSWER_MS ? undefined : this.#doubt("it does not answer any more");
    if (now < this.#heard + QUIET_MS) return;
    this.#asked = now;
    this.#socket.write(Buffer.from([PING, 0, 0, 0, 0]));
  }

  /** This process may have stood still: what came meanwhile is read first. */
  #doubt(details: string): void {
    const heard = this.#heard;
    setTimeout(() => this.#heard === heard && this.#break({ details }), LOOK_MS).unref();
  }

  #break(fault: Fault): void {
    this.#fault ??= fault;
    this.#socket.destroy();
  }

  #close(): void {
    clearInterval(this.#watch);
    if (this.#ended) return;
    this.#ended = true;
    const silent = this.#connected && this.#greeting?.length === 0;
    const fault = this.#fault ?? (this.#greeting ? { details: "it ended the connection" } : undefined);
    this.#ends.ended(fault && silent ? { other: "silent", ...fault } : fault);
  }
}

/** Bytes of one read. */
const CHUNK_BYTES = 64 << 10;

/** `read` gets chunks in one buffer, where the runtime can do that: a new one for each read costs more than the read. Else they come as `data`. */
function open(goal: Goal, connected: () => void, read: (chunk: Buffer, end: number) => void): Socket {
  const { secure, host, port, path } = addressOf(goal);
  if (!secure) {
    const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
    const callback = (bytes: number) => (read(buffer, bytes), true);
    return connect({ ...(path ? { path } : { host, port }), onread: { buffer, callback } }, connected);
  }
  const { ca, cert, key } = goal.tls ?? {};
  return connectTls({ host, port, ca, cert, key, servername: isIP(host) ? undefined : host }, connected);
}
