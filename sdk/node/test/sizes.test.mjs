// What is said in one tick, or kept while the gateway is away, and how much of it one message has room for.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { stage } from "./stage.mjs";

const MIB = 1 << 20;
let here;
before(async () => (here = await stage("", "", "[limits]\noutbox_bytes_max = \"64MiB\"\n")));
after(() => here.close());

/** The link broke over it, and the worker came back with the same message, for ever. */
test("more than 16 MiB in one tick ended the service of all clients", async () => {
  const io = await here.server();
  io.on("connection", (socket) => {
    socket.on("flood", (done) => {
      for (let n = 0; n < 40; n++) socket.emit("part", n, "x".repeat(MIB / 2));
      done("all");
    });
  });
  const client = here.open("/", { transports: ["websocket"] });
  const parts = [];
  client.on("part", (n) => parts.push(n));
  assert.equal(await client.emitWithAck("flood"), "all");
  assert.deepEqual(parts, Array.from({ length: 40 }, (_, n) => n));
  client.disconnect();
  await io.close();
});

test("a single event that no message has room for is dropped and counted, and an answer becomes an error", async () => {
  const io = await here.server();
  const lines = [];
  const { error } = console;
  console.error = (line) => lines.push(line);
  try {
    io.on("connection", (socket) => {
      socket.on("huge", (done) => (socket.emit("part", "x".repeat(17 * MIB)), done("said")));
      socket.on("answer", (done) => done("x".repeat(17 * MIB)));
    });
    const client = here.open("/", { transports: ["websocket"] });
    client.on("part", () => assert.fail("no message has room for it"));
    assert.equal(await client.emitWithAck("huge"), "said");
    assert.deepEqual(await client.emitWithAck("answer"), { error: "The answer is too large" });
    assert.equal(io.dropped, 2);
    assert.equal(lines.length, 2);
    client.disconnect();
  } finally {
    console.error = error;
  }
  await io.close();
});
