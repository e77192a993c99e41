// Messages are written and read without the copies that protobuf.js makes of them: the bytes and the values are the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";
import { decode, decodeEvent, encode } from "../dist/codec.js";
import { Frames } from "../dist/frames.js";
import { wire } from "../dist/wire.js";
import { Writer } from "../dist/writer.js";

const root = new protobuf.Root();
root.resolvePath = (_, file) => fileURLToPath(new URL(`../../../proto/${file}`, import.meta.url));
root.loadSync("sockeye/worker/v1/worker.proto", { keepCase: true });
const [FromWorker, ToWorker] = ["FromWorker", "ToWorker"].map((name) => root.lookupType(`sockeye.worker.v1.${name}`));

const socket = "abcdefghijklmnopqrst";
const target = { namespace: "/", rooms: ["a"], except: [] };

/** As protobuf.js wants it. */
const inBytes = (value) => {
  if (value === null || typeof value !== "object" || Buffer.isBuffer(value)) return value;
  if (Array.isArray(value)) return value.map(inBytes);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, name === "args" ? Buffer.from(member) : inBytes(member)]));
};
const meantBy = (message) => FromWorker.encode(FromWorker.fromObject(inBytes(message))).finish();
/** A message may be written in several ways: what is empty may be there or not. */
const said = (bytes) => JSON.stringify(FromWorker.toObject(FromWorker.decode(bytes), { defaults: true, longs: String, bytes: String, oneofs: true }));

test("what is written is what protobuf.js writes", () => {
  const args = '"é"';
  const commands = [
    { ack: { socket, ack: 1, args, attachments: [Buffer.from([0, 255])] } },
    { ack: { socket, ack: 2 ** 53 - 1, args: "", attachments: [] }, traceparent: "00-1-2-03" },
    { emit: { to: target, event: "e", args, attachments: [], volatile: undefined } },
    { join: { of: target, rooms: ["b"] } },
    { decision: { socket, admit: true } },
  ];
  const messages = [
    { hello: { backend: "kitchen", instance: "i", received: 5_000_000_000, weight: 2, away: true } },
    { handled: 300, first: 5, commands, leaving: true, openings: true },
    { handled: 0, first: 0, commands: [], leaving: false },
    { handled: 4, beside: [6, 6, 8, 5_000_000_000], begun: 5_000_000_001, overdue: 3, asks: 2 },
    { handled: 4, beside: [], begun: undefined, overdue: undefined, asks: undefined },
  ];
  for (const message of messages) {
    assert.equal(said(wire.write(message)), said(meantBy(message)));
  }
});

test("texts of every length, and any commands one behind the other, are what protobuf.js reads", () => {
  const letters = ["a", "é", "€", "🦀"];
  const lengths = [0, 1, 30, 31, 32, 33, 40, 41, 42, 43, 63, 64, 126, 127, 128, 129, 5_461, 5_462, 16_383, 16_384, 70_000];
  const writer = new Writer();
  for (const letter of letters) {
    for (const length of lengths) {
      const text = letter.repeat(length);
      const values = { args: text, attachments: length % 2 ? [Buffer.alloc(length, 7)] : [] };
      const to = { namespace: "/x", rooms: [text, "b"], except: ["c"], local: true, without: [0, 1, 300], all: length % 2 === 1 };
      const commands = [
        { ack: { socket, ack: length, ...values } },
        { ack: { socket: text, ack: 2 ** 32, ...values }, traceparent: text },
        { emit: { to, event: text, ...values, volatile: true } },
        { join: { of: to, rooms: [text] } },
        { leave: { of: { ...to, local: false, without: undefined }, rooms: [] }, traceparent: "t" },
        { set_data: { socket, data: text } },
        { disconnect: { of: to, close: true } },
        { tell: { query: 1, namespace: "/", event: text, timeout_ms: 5, ...values } },
        { reply: { told: 5, ...values } },
        { ask: { query: 9, emit: { to, event: "q", ...values }, timeout_ms: 70_000 } },
        { verdict: { opening: 3, admit: false, message: text, headers: [{ name: "x", value: Buffer.from(text) }] } },
      ];
      for (const command of commands) {
        const message = { handled: 2 ** 40, first: 1, commands: [command, command] };
        // One slab holds many messages, and none is written over.
        const written = [message, { handled: 1 }, message].map((each) => (wire.append(each, writer), writer.take()));
        for (const [at, each] of [message, { handled: 1 }, message].entries()) {
          assert.ok(said(written[at]) === said(meantBy(each)), `${Object.keys(command)} of ${length} times ${letter}`);
        }
      }
    }
  }
});

test("a stream in any pieces is the same frames", () => {
  const contents = ["", "x", "y".repeat(300), "", "z".repeat(5)].map((text) => Buffer.from(text));
  const stream = Buffer.concat(contents.flatMap((content, at) => [Buffer.from([at, 0, 0, content.length >> 8, content.length & 255]), content]));
  for (let piece = 1; piece <= stream.length; piece += 1) {
    const heard = [];
    const frames = new Frames((kind, bytes, at, end) => heard.push([kind, bytes.toString("utf8", at, end)]));
    // One buffer for all pieces, with bytes of earlier ones behind the last.
    const buffer = Buffer.alloc(stream.length, 255);
    for (let at = 0; at < stream.length; at += piece) frames.push(buffer, stream.copy(buffer, 0, at, at + piece));
    assert.deepEqual(heard, contents.map((content, at) => [at, content.toString()]), `${piece}`);
  }
});

test("a frame that announces too much is refused before it is read", () => {
  const frames = new Frames(() => assert.fail("nothing is whole"));
  assert.throws(() => frames.push(Buffer.from([0, 4, 0, 0, 1])), /67108865 bytes/);
  const torn = new Frames(() => assert.fail("nothing is whole"));
  torn.push(Buffer.from([0, 255]));
  assert.throws(() => torn.push(Buffer.from([255, 255, 255])), RangeError);
});

test("names of events are what they are, whichever came before", () => {
  const letters = ["a", "b", "é", "\u0000", "🦀"];
  // Names of the same place in the table, and too long ones, stand beside each other.
  const names = [""];
  for (let length = 1; length <= 40; length += 1) for (const one of letters) for (const other of letters) names.push(one.repeat(length - 1) + other, other + one.repeat(length - 1));
  for (let round = 0; round < 3; round += 1) {
    for (const name of names) {
      const bytes = ToWorker.encode(ToWorker.fromObject({ items: [{ event: { socket, event: name } }] })).finish();
      const [{ event }] = wire.read(Buffer.from(bytes)).items;
      assert.equal(event.event, name);
    }
  }
});

test("any values are written as JSON has them, and read behind the event's name", () => {
  const odd = { toJSON: () => "said" };
  const lists = [[], ["x"], ['"\\\n\u2028\ud800'], [1], [undefined], [() => {}], [Symbol("s")], [NaN], [null], [odd], [Buffer.from("b")], ["x", Buffer.from("b")], ["a", ["b"], { c: odd }]];
  for (const values of lists) {
    const said = encode(values);
    const bytes = values.some(Buffer.isBuffer);
    if (!bytes) assert.equal(`[${said.args}]`, JSON.stringify(values));
    const back = bytes ? values : JSON.parse(JSON.stringify(values));
    assert.deepEqual(decode(said), back);
    assert.deepEqual(decodeEvent("e", said), ["e", ...back]);
  }
  // Clients may write spaces where others write nothing.
  assert.deepEqual(decodeEvent("e", { args: " ", attachments: [] }), ["e"]);
  assert.throws(() => decodeEvent("e", { args: "1,", attachments: [] }), SyntaxError);
});

test("a room that is named by a number is one", () => {
  const bytes = wire.write({ commands: [{ join: { of: target, rooms: [7] } }] });
  assert.deepEqual(FromWorker.decode(bytes).commands[0].join.rooms, ["7"]);
});

test("what is read has all its fields, and its numbers are numbers", () => {
  const event = { socket, event: "e", args: "1", attachments: [Buffer.from("x")], ack: 2 ** 53 - 1, traceparent: "t" };
  const bytes = ToWorker.encode(
    ToWorker.fromObject({
      welcome: { resumed: true, commands: 4_294_967_296, node: 3, silent_ms: 10_000 },
      sure: 7,
      first: 9,
      items: [
        { redelivered: true, sequence: 2, event: inBytes(event), alone: true },
        { event: { socket } },
        { gone: { socket, reason: "r" } },
        { answers: { query: 1 } },
      ],
      commands: 128,
    }),
  ).finish();
  const { welcome, first, items, commands, goodbye, sure } = wire.read(Buffer.from(bytes));
  assert.equal(welcome.commands, 4_294_967_296);
  assert.deepEqual([welcome.manners, welcome.silent_ms, sure, items[0].alone, items[1].alone], [null, 10_000, 7, true, false]);
  assert.deepEqual([first, commands, goodbye], [9, 128, false]);
  const [full, bare, gone, answers] = items;
  assert.deepEqual([full.what, full.redelivered, { ...full.event }], ["event", true, event]);
  const { event: name, ack, traceparent, attachments, args } = bare.event;
  assert.deepEqual([name, ack, traceparent, attachments.length, args.length, bare.redelivered], ["", 0, "", 0, 0, false]);
  assert.deepEqual({ ...gone.gone }, { socket, reason: "r", rooms: [] });
  assert.deepEqual({ ...answers.answers }, { query: 1, answers: [], missing: 0 });
  assert.equal(gone.what, "gone");
  const empty = wire.read(Buffer.alloc(0));
  assert.deepEqual(empty, { welcome: null, first: 0, items: [], commands: 0, goodbye: false, sure: 0 });
  for (let end = 1; end < bytes.length; end += 1) {
    let whole = true;
    try {
      ToWorker.decode(bytes.subarray(0, end));
    } catch {
      whole = false;
    }
    if (whole) wire.read(Buffer.from(bytes.subarray(0, end)));
    else assert.throws(() => wire.read(Buffer.from(bytes.subarray(0, end))), RangeError, `${end}`);
  }
});
