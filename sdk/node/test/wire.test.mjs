// Messages are written and read without the copies that protobuf.js makes of them: the bytes and the values are the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";
import { wire } from "../dist/wire.js";

const root = new protobuf.Root();
root.resolvePath = (_, file) => fileURLToPath(new URL(`../../../proto/${file}`, import.meta.url));
root.loadSync("sockeye/worker/v1/worker.proto", { keepCase: true });
const [FromWorker, ToWorker] = ["FromWorker", "ToWorker"].map((name) => root.lookupType(`sockeye.worker.v1.${name}`));

const socket = "abcdefghijklmnopqrst";
const target = { namespace: "/", rooms: ["a"], except: [] };

test("what is written is what protobuf.js writes", () => {
  const args = Buffer.from('"é"');
  const commands = [
    { ack: { socket, ack: 1, args, attachments: [Buffer.from([0, 255])] } },
    { ack: { socket, ack: 2 ** 53 - 1, args: Buffer.alloc(0), attachments: [] }, traceparent: "00-1-2-03" },
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
    const meant = FromWorker.encode(FromWorker.fromObject(message)).finish();
    assert.deepEqual(FromWorker.decode(wire.write(message)), FromWorker.decode(meant));
  }
});

test("a room that is named by a number is one", () => {
  const bytes = wire.write({ commands: [{ join: { of: target, rooms: [7] } }] });
  assert.deepEqual(FromWorker.decode(bytes).commands[0].join.rooms, ["7"]);
});

test("what is read has all its fields, and its numbers are numbers", () => {
  const event = { socket, event: "e", args: Buffer.from("1"), attachments: [Buffer.from("x")], ack: 2 ** 53 - 1, traceparent: "t" };
  const bytes = ToWorker.encode(
    ToWorker.fromObject({
      welcome: { resumed: true, commands: 4_294_967_296, node: 3, silent_ms: 10_000 },
      sure: 7,
      first: 9,
      items: [{ redelivered: true, sequence: 2, event, alone: true }, { event: { socket } }, { gone: { socket, reason: "r" } }, { answers: { query: 1 } }],
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
