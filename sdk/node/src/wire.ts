// Messages as bytes. Events, and what programs say all the time, are read and written by code that is made for them; protobuf.js does the rest.
import protobuf from "protobufjs/light.js";
import type { Command, Emit, Event, FromWorker, Item, Target, ToWorker, Values } from "./messages.js";
import { Reader } from "./reader.js";
import schema from "./schema.json";
import { Writer } from "./writer.js";

/** What the rest is told with: all fields are there, and numbers are numbers. */
const PLAIN = { longs: Number, defaults: true, oneofs: true };

/** Fields as they are written: their number and kind. */
const key = (field: number, kind: 0 | 2): number => field * 8 + kind;
const [NUMBER, LENGTH] = [0, 2] as const;

const OF_MESSAGE = {
  handled: key(2, NUMBER),
  first: key(3, NUMBER),
  command: key(4, LENGTH),
  leaving: key(5, NUMBER),
  openings: key(6, NUMBER),
  beside: key(7, LENGTH),
  begun: key(8, NUMBER),
  overdue: key(9, NUMBER),
  asks: key(10, NUMBER),
};
const OF_COMMAND = { ack: key(2, LENGTH), emit: key(3, LENGTH), join: key(4, LENGTH), leave: key(5, LENGTH), set_data: key(7, LENGTH), traceparent: key(20, LENGTH) };
const OF_ACK = { socket: key(1, LENGTH), ack: key(2, NUMBER), args: key(3, LENGTH), attachment: key(4, LENGTH) };
const OF_EMIT = { to: key(1, LENGTH), event: key(2, LENGTH), args: key(3, LENGTH), attachment: key(4, LENGTH), volatile: key(5, NUMBER) };
const OF_TARGET = { namespace: key(1, LENGTH), room: key(2, LENGTH), except: key(3, LENGTH), local: key(4, NUMBER), without: key(5, NUMBER), all: key(8, NUMBER) };
const OF_CHANGE = { of: key(1, LENGTH), room: key(2, LENGTH) };
const OF_DATA = { socket: key(1, LENGTH), data: key(2, LENGTH) };

const TO_WORKER = { welcome: key(1, LENGTH), first: key(2, NUMBER), item: key(3, LENGTH), commands: key(4, NUMBER), goodbye: key(5, NUMBER), sure: key(6, NUMBER) };
const OF_ITEM = { redelivered: key(1, NUMBER), event: key(4, LENGTH), sequence: key(9, NUMBER), alone: key(17, NUMBER) };
const OF_EVENT = { socket: key(1, LENGTH), event: key(2, LENGTH), args: key(3, LENGTH), attachment: key(4, LENGTH), ack: key(5, NUMBER), traceparent: key(15, LENGTH) };

/** What a message has beside its texts, about. */
const FEW = 48;

const NONE: Buffer[] = [];

/** Numbers that JavaScript counts to, for protobuf.js: nothing in a message is above 2^53. */
class Counting extends protobuf.BufferReader {
  override uint64(): any {
    let [value, factor] = [0, 1];
    for (let read = 0; read < 10 && this.pos < this.len; read += 1) {
      const byte = this.buf[this.pos++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
      factor *= 128;
    }
    throw new RangeError("a number in a message of the gateway has no end");
  }
}

export interface Wire {
  /** Appends a message to what is written. */
  append(message: FromWorker, to: Writer): void;
  write(message: FromWorker): Buffer;
  /** Of these bytes, those from `at` to `end`. */
  read(bytes: Buffer, at?: number, end?: number): ToWorker;
}

const root = protobuf.Root.fromJSON(schema as object).resolveAll();
const type = (name: string) => root.lookupType(`sockeye.worker.v1.${name}`);
const [fromWorker, commandType, itemType, welcomeType] = ["FromWorker", "Command", "Item", "Welcome"].map(type);

// ---- to the gateway -----------------------------------------------------------------------------------------------------------

function append(message: FromWorker, to: Writer): void {
  if (message.hello) return to.raw(fromWorker.encode(fromWorker.fromObject({ hello: message.hello })).finish());
  if (message.handled) to.number(OF_MESSAGE.handled, message.handled);
  const { commands, beside } = message;
  if (commands && commands.length > 0) {
    to.number(OF_MESSAGE.first, message.first ?? 0);
    for (const command of commands) writeCommand(command, to);
  }
  if (message.leaving) to.number(OF_MESSAGE.leaving, 1);
  if (message.openings) to.number(OF_MESSAGE.openings, 1);
  if (beside && beside.length > 0) {
    const mark = to.begin(OF_MESSAGE.beside, beside.length);
    for (const number of beside) to.plain(number);
    to.end(mark);
  }
  if (message.begun) to.number(OF_MESSAGE.begun, message.begun);
  if (message.overdue) to.number(OF_MESSAGE.overdue, message.overdue);
  if (message.asks) to.number(OF_MESSAGE.asks, message.asks);
}

function writeCommand(command: Command, to: Writer): void {
  const { ack, emit, join, leave, set_data, traceparent } = command;
  if (ack) {
    const about = FEW + ack.args.length;
    const mark = to.begin(OF_MESSAGE.command, about);
    const inner = to.begin(OF_COMMAND.ack, about - 4);
    to.text(OF_ACK.socket, ack.socket);
    to.number(OF_ACK.ack, ack.ack);
    writeValues(ack, OF_ACK, to);
    to.end(inner);
    if (traceparent) to.text(OF_COMMAND.traceparent, traceparent);
    return to.end(mark);
  }
  const change = join ?? leave;
  if (!emit && !change && !set_data) return to.bytes(OF_MESSAGE.command, commandType.encode(commandType.fromObject(plainOf(command))).finish());
  const mark = to.begin(OF_MESSAGE.command, FEW + (emit?.args.length ?? set_data?.data.length ?? 0) + FEW);
  if (emit) writeEmit(emit, to);
  else if (change) {
    const inner = to.begin(join ? OF_COMMAND.join : OF_COMMAND.leave, FEW);
    writeTarget(OF_CHANGE.of, change.of, to);
    for (const room of change.rooms) to.text(OF_CHANGE.room, String(room));
    to.end(inner);
  } else if (set_data) {
    const inner = to.begin(OF_COMMAND.set_data, FEW + set_data.data.length);
    to.text(OF_DATA.socket, set_data.socket);
    to.text(OF_DATA.data, set_data.data);
    to.end(inner);
  }
  if (traceparent) to.text(OF_COMMAND.traceparent, traceparent);
  to.end(mark);
}

function writeEmit(emit: Emit, to: Writer): void {
  const mark = to.begin(OF_COMMAND.emit, FEW + emit.args.length);
  writeTarget(OF_EMIT.to, emit.to, to);
  to.text(OF_EMIT.event, emit.event);
  writeValues(emit, OF_EMIT, to);
  if (emit.volatile) to.number(OF_EMIT.volatile, 1);
  to.end(mark);
}

function writeTarget(field: number, target: Target, to: Writer): void {
  const mark = to.begin(field, FEW);
  to.text(OF_TARGET.namespace, target.namespace);
  // Programs name rooms, and may do so by numbers.
  for (const room of target.rooms) to.text(OF_TARGET.room, String(room));
  for (const room of target.except) to.text(OF_TARGET.except, String(room));
  if (target.local) to.number(OF_TARGET.local, 1);
  if (target.without) for (const node of target.without) to.number(OF_TARGET.without, node);
  if (target.all) to.number(OF_TARGET.all, 1);
  to.end(mark);
}

function writeValues({ args, attachments }: Values, fields: { args: number; attachment: number }, to: Writer): void {
  if (args !== "") to.text(fields.args, args);
  for (const attachment of attachments) to.bytes(fields.attachment, attachment);
}

/** For protobuf.js, which takes a text for base64 where bytes are meant. */
function plainOf(command: Command): object {
  const bytes = <T extends Values>(values: T) => ({ ...values, args: Buffer.from(values.args) });
  const { ask, tell, reply } = command;
  if (ask) return { ...command, ask: { ...ask, emit: bytes(ask.emit) } };
  if (tell) return { ...command, tell: bytes(tell) };
  return reply ? { ...command, reply: bytes(reply) } : command;
}

// ---- from the gateway -----------------------------------------------------------------------------------------------------------

function read(bytes: Buffer, at?: number, end?: number): ToWorker {
  const from = new Reader(bytes, at, end);
  const message: ToWorker = { welcome: null, first: 0, items: [], commands: 0, goodbye: false, sure: 0 };
  while (from.more) {
    const field = from.number();
    switch (field) {
      case TO_WORKER.welcome:
        message.welcome = welcomeType.toObject(welcomeType.decode(new Counting(from.copy())), PLAIN) as ToWorker["welcome"];
        break;
      case TO_WORKER.first:
        message.first = from.number();
        break;
      case TO_WORKER.item:
        message.items.push(readItem(from));
        break;
      case TO_WORKER.commands:
        message.commands = from.number();
        break;
      case TO_WORKER.goodbye:
        message.goodbye = from.number() !== 0;
        break;
      case TO_WORKER.sure:
        message.sure = from.number();
        break;
      default:
        from.skip(field);
    }
  }
  return message;
}

function readItem(from: Reader): Item {
  const begin = from.at;
  const outer = from.enter();
  const item = readEventItem(from);
  from.leave(outer);
  if (item) return item;
  from.at = begin;
  return plain(itemType.toObject(itemType.decode(new Counting(from.copy())), PLAIN) as Item);
}

/** Nothing, if it is another item. */
function readEventItem(from: Reader): Item | undefined {
  let event: Event | undefined;
  let redelivered = false;
  let alone = false;
  while (from.more) {
    const field = from.number();
    switch (field) {
      case OF_ITEM.event:
        event = readEvent(from);
        break;
      case OF_ITEM.redelivered:
        redelivered = from.number() !== 0;
        break;
      case OF_ITEM.alone:
        alone = from.number() !== 0;
        break;
      case OF_ITEM.sequence:
        from.number();
        break;
      default:
        // The kinds of items have fields of their own, and nothing else has a length.
        if ((field & 7) === LENGTH) return undefined;
        from.skip(field);
    }
  }
  return event && ({ what: "event", event, redelivered, alone } as Item);
}

function readEvent(from: Reader): Event {
  let socket = "";
  let event = "";
  let args = "";
  let traceparent = "";
  let ack = 0;
  let attachments = NONE;
  const outer = from.enter();
  while (from.more) {
    const field = from.number();
    switch (field) {
      case OF_EVENT.socket:
        socket = from.ascii();
        break;
      case OF_EVENT.event:
        event = from.name();
        break;
      case OF_EVENT.args:
        args = from.text();
        break;
      case OF_EVENT.attachment:
        if (attachments === NONE) attachments = [];
        attachments.push(from.copy());
        break;
      case OF_EVENT.ack:
        ack = from.number();
        break;
      case OF_EVENT.traceparent:
        traceparent = from.text();
        break;
      default:
        from.skip(field);
    }
  }
  from.leave(outer);
  return { socket, event, args, attachments, ack, traceparent };
}

/** Arguments are texts. */
function plain(item: Item): Item {
  const values = item.what === "answers" ? item.answers.answers : item.what === "told" ? [item.told] : [];
  for (const value of values) value.args = String(value.args);
  return item;
}

export const wire: Wire = {
  append,
  write(message) {
    const writer = new Writer();
    append(message, writer);
    return writer.take();
  },
  read,
};
