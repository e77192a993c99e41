// Messages as bytes, by protobuf.js. Events and answers are the many: no copy of another shape is made of them.
import protobuf from "protobufjs/light.js";
import type { Command, FromWorker, Item, ToWorker } from "./messages.js";
import schema from "./schema.json";

/** What the rest is told with: all fields are there, and numbers are numbers. */
const PLAIN = { longs: Number, defaults: true, oneofs: true };

/** Numbers that JavaScript counts to: nothing in a message is above 2^53. */
class Reader extends protobuf.BufferReader {
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

/** What is absent is 0; protobuf.js has an object for that. */
const number = (value: unknown): number => (typeof value === "number" ? value : 0);

export interface Wire {
  write(message: FromWorker): Buffer;
  read(bytes: Buffer): ToWorker;
}

function open(): Wire {
  const root = protobuf.Root.fromJSON(schema as object).resolveAll();
  const type = (name: string) => root.lookupType(`sockeye.worker.v1.${name}`);
  const [fromWorker, commandType, toWorker, itemType, welcomeType] = ["FromWorker", "Command", "ToWorker", "Item", "Welcome"].map(type);

  /** Programs name rooms, and may do so by numbers; nothing in an answer is theirs. */
  const commandOf = (command: Command) => (command.ack ? command : commandType.fromObject(command));

  function itemOf(item: any): Item {
    const { event } = item;
    if (!event) return itemType.toObject(item, PLAIN) as Item;
    event.ack = number(event.ack);
    return { what: "event", event, redelivered: item.redelivered, alone: item.alone } as Item;
  }

  return {
    write({ hello, commands = [], ...head }) {
      const message = hello ? fromWorker.fromObject({ hello }) : { ...head, commands: commands.map(commandOf) };
      return fromWorker.encode(message).finish() as Buffer;
    },
    read(bytes) {
      const { welcome, first, items, commands, goodbye, sure } = toWorker.decode(new Reader(bytes)) as any;
      return {
        welcome: welcome ? (welcomeType.toObject(welcome, PLAIN) as ToWorker["welcome"]) : null,
        first: number(first),
        items: items.map(itemOf),
        commands: number(commands),
        goodbye,
        sure: number(sure),
      };
    },
  };
}

export const wire: Wire = open();
