// The client against the real gateway, which is killed, frozen, stopped and restarted. SOCKEYE_BIN names the binary.
import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { Worker } from "node:worker_threads";
import { io } from "socket.io-client";
import { Client, DeliveryError } from "@sockeye/client";
import { Gateway } from "../../../web/tests/gateway.mjs";

const ends = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function gatewayWith(toml = "") {
  const file = join(mkdtempSync(join(tmpdir(), "sockeye-client-")), "sockeye.toml");
  writeFileSync(file, toml);
  const gateway = await Gateway.start("--config", file);
  ends.push(() => gateway.kill());
  return gateway;
}

function clientOf(gateway, options = {}, connect = io) {
  const socket = { transports: ["websocket"], auth: { name: "Ada" }, ...options.socket };
  const client = new Client(connect, { url: gateway.url, ...options, socket });
  ends.push(() => client.close());
  return client;
}

/** The first value of a notice that fits. */
function until(client, notice, fits = () => true) {
  return new Promise((resolve) => {
    const end = client.watch(notice, (value) => {
      if (!fits(value)) return;
      end();
      resolve(value);
    });
  });
}

const online = (client) => (client.id === undefined ? until(client, "online") : client.id);
const waiting = (client) => until(client, "link", (link) => link.phase === "waiting");

/** What a member of `global` hears; an answer may come before the message itself. */
function hears(client) {
  const contents = [];
  const marks = new Map();
  client.on("chat-message", ({ content }) => {
    contents.push(content);
    marks.get(content)?.();
  });
  /** All that was heard up to the last of these. */
  const are = async (expected) => {
    const last = expected.at(-1);
    if (!contents.includes(last)) await new Promise((resolve) => marks.set(last, resolve));
    assert.deepEqual(contents, expected);
  };
  return { are };
}

const says = (client, content) => client.send("chat-message", { content });
const states = (deliveries) => deliveries.map(({ state }) => state);
const settled = (deliveries) => Promise.allSettled(deliveries.map((one) => one.answer()));

test("events, questions and deliveries on a connection that holds", async () => {
  const gateway = await gatewayWith();
  const [ada, grace] = [clientOf(gateway).open(), clientOf(gateway).open()];
  await Promise.all([online(ada), online(grace)]);
  assert.deepEqual(ada.link, { phase: "online", transport: "websocket" });
  const heard = hears(grace);
  assert.deepEqual(await ada.ask("join", "den"), ["den"]);
  const delivery = says(ada, "hello");
  assert.equal(delivery.state, "queued");
  const seen = [];
  delivery.watch(({ state }) => seen.push(state));
  const { id } = await delivery.answer();
  assert.deepEqual([typeof id, delivery.result.id, seen], ["string", id, ["sending", "sent"]]);
  await says(grace, "and back").answer();
  await heard.are(["hello", "and back"]);
  const refused = says(ada, "");
  await assert.rejects(refused.answer(), (error) => {
    assert.ok(error instanceof DeliveryError);
    assert.match(
      error.message,
      /cannot deliver "chat-message": the server refused it: Invalid message payload/,
    );
    return error.failure.kind === "refused" && !refused.uncertain;
  });
});

test("the queue keeps its newest events in order, fails the oldest, and sends after a restart", async () => {
  const gateway = await gatewayWith(`[rates]\nsession = "1000/s"\n`);
  const ada = clientOf(gateway, { queueMax: 5 }).open();
  const seen = hears(ada);
  await online(ada);
  const cut = waiting(ada);
  await gateway.kill();
  const { why, given } = await cut;
  assert.deepEqual([why, given], ["Connection lost", false]);
  const deliveries = [1, 2, 3, 4, 5, 6, 7].map((n) => says(ada, `queued ${n}`));
  assert.deepEqual(states(deliveries), ["failed", "failed", ...Array(5).fill("queued")]);
  assert.deepEqual(ada.queue, { length: 5, dropped: 2 });
  await assert.rejects(deliveries[0].answer(), /the queue holds 5 events/);
  assert.equal(deliveries[3].withdraw(), true);
  await assert.rejects(ada.ask("join", "den"), /connection was lost/);
  await gateway.restart();
  ada.retryNow();
  await settled(deliveries);
  await seen.are([3, 5, 6, 7].map((n) => `queued ${n}`));
  assert.equal(deliveries[4].withdraw(), false);
});

test("an event without an answer fails as uncertain, and is not sent again", async () => {
  const gateway = await gatewayWith();
  const ada = clientOf(gateway, { answerTimeoutMs: 2_000 }).open();
  const seen = hears(ada);
  await online(ada);
  await gateway.freeze();
  const [late, next] = [says(ada, "late"), says(ada, "next")];
  await assert.rejects(late.answer(), /did not answer in time/);
  assert.deepEqual([late.failure.kind, late.uncertain], ["timeout", true]);
  await assert.rejects(next.answer(), /did not answer in time/);
  gateway.thaw();
  await says(ada, "after").answer();
  await seen.are(["late", "next", "after"]);
  await gateway.freeze();
  const lost = says(ada, "lost");
  const cut = until(ada, "offline");
  await gateway.kill();
  await cut;
  assert.deepEqual([lost.state, lost.failure.kind, lost.uncertain], ["failed", "cut", true]);
  await gateway.restart();
  ada.retryNow();
  await says(ada, "new").answer();
  await seen.are(["late", "next", "after", "new"]);
});

test("a rate limit makes the queue wait, and nothing overtakes", async () => {
  const gateway = await gatewayWith();
  const ada = clientOf(gateway).open();
  const seen = hears(ada);
  await online(ada);
  const all = Array.from({ length: 15 }, (_, n) => says(ada, String(n)));
  const back = [];
  for (const one of all) one.watch(({ state }) => state === "queued" && back.push(one));
  await settled(all);
  assert.deepEqual(states(all), Array(15).fill("sent"));
  await seen.are(all.map((_, n) => String(n)));
  assert.ok(back.length > 0, "none was refused");
});

test("a server that stops says when to come back, and the client keeps to it", async () => {
  const gateway = await gatewayWith();
  const ada = clientOf(gateway).open();
  await online(ada);
  const told = new Promise((resolve) =>
    ada.on("SERVER_SHUTDOWN", ({ retry_after_ms }) => resolve(Date.now() + retry_after_ms)),
  );
  const link = waiting(ada);
  gateway.stop();
  const { retryAt, given, why } = await link;
  assert.deepEqual([given, why], [true, "Server is shutting down"]);
  assert.ok(Math.abs(retryAt - (await told)) < 1000, `${retryAt} is not ${await told}`);
});

test("a refused CONNECT says when to come back, and a connection that ends meanwhile changes nothing", async () => {
  // The gateway closes connections that have joined no namespace for 300 ms; the delay is a second.
  const gateway = await gatewayWith(
    `profile = "socket.io"\n[workers]\nlisten = "127.0.0.1:0"\n[backends.kitchen]\nconnect_timeout = "50ms"\napi_keys = ["cook:${"0".repeat(64)}"]\n` +
      `[namespaces."/"]\nbackend = "kitchen"\n[socketio]\nconnect_timeout = "300ms"\n`,
  );
  const ada = clientOf(gateway);
  const links = [];
  ada.watch("link", (link) => links.push(link));
  const twice = until(
    ada,
    "link",
    () => links.filter(({ phase }) => phase === "waiting").length === 2,
  );
  ada.open();
  await twice;
  assert.deepEqual(
    links.map(({ phase }) => phase),
    ["connecting", "waiting", "connecting", "waiting"],
  );
  assert.deepEqual([links[1].why, links[1].given], ["service unavailable", true]);
});

test("an answer 429 to long-polling says when to come back", async () => {
  const gateway = await gatewayWith(`[rates]\nconnects = "1/60s"\n`);
  const socket = { transports: ["polling"] };
  await online(clientOf(gateway, { socket }).open());
  const late = clientOf(gateway, { socket });
  const link = waiting(late);
  late.open();
  const { retryAt, given } = await link;
  const seconds = (retryAt - Date.now()) / 1000;
  assert.ok(given && seconds > 10 && seconds < 80, `waits ${seconds} s`);
});

test("close() ends what waits, open() begins anew, reconnect() says another name", async () => {
  const gateway = await gatewayWith();
  const ada = clientOf(gateway);
  const early = says(ada, "never said");
  ada.close();
  await assert.rejects(early.answer(), /withdrawn/);
  const grace = clientOf(gateway).open();
  await online(grace);
  const heard = hears(grace);
  const names = [];
  grace.on("chat-message", ({ name }) => names.push(name));
  ada.open();
  await says(ada, "first").answer();
  ada.reconnect({ name: "Augusta" });
  await says(ada, "second").answer();
  ada.close();
  assert.deepEqual(ada.link, { phase: "closed" });
  ada.open();
  await says(ada, "third").answer();
  await heard.are(["first", "second", "third"]);
  assert.deepEqual(names, ["Ada", "Augusta", "Augusta"]);
  assert.throws(() => new Client(io, { queueMax: 0 }), /queueMax must be 1 or more, not 0/);
});

test("a client that was cut comes back to its rooms, and hears what it missed without offsets", async () => {
  const recovers = '[namespaces."/".recovery]\nlevel = "node"\noffsets = "asked"\n';
  const gateway = await gatewayWith(recovers);
  let stock;
  const connect = (...args) => (stock = io(...args));
  const ada = clientOf(gateway).open();
  const grace = clientOf(gateway, { backoff: { firstMs: 1500, jitter: 0 } }, connect).open();
  await Promise.all([online(ada), online(grace)]);
  const { id } = grace;
  await grace.ask("join", "den");
  const heard = [];
  grace.on("chat-message", (...args) => heard.push(args));
  await ada.ask("join", "den");
  const say = (content) => ada.send("chat-message", { room: "den", content }).answer();
  await say("before");
  while (heard.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
  const back = new Promise((resolve) =>
    grace.watch("online", (id, recovered) => resolve({ id, recovered })),
  );
  const lost = until(grace, "offline");
  stock.io.engine.transport.ws.terminate();
  await lost;
  await say("meanwhile");
  assert.deepEqual(await back, { id, recovered: true });
  while (heard.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(
    heard.map(([{ content }, ...more]) => [content, ...more]),
    [["before"], ["meanwhile"]],
  );
});

test("a client that was too slow is told of which rooms something is missing", async () => {
  const gateway = await gatewayWith(
    [
      'profile = "socket.io"',
      'limits = { slow_consumer = "drop-newest", outbox_bytes_max = "128KiB" }',
      'socketio.max_http_buffer_size = "64KiB"',
      '[namespaces."/"]',
      "client_joins = true",
      '[namespaces."/".recovery]',
      'level = "node"',
      'offsets = "asked"',
      '[namespaces."/".events.say]',
      'action = "rooms"',
      'room_field = "room"',
    ].join("\n"),
  );
  const grace = clientOf(gateway).open();
  await online(grace);
  await grace.ask("join", "den");
  let heard = 0;
  grace.on("say", () => heard++);
  grace.on("sockeye:gap", () => assert.fail("it is no event of the application"));
  const rooms = until(grace, "gap", () => true);
  const code = `
    const { workerData } = require("node:worker_threads");
    const { io } = require("socket.io-client");
    const socket = io(workerData, { transports: ["websocket"] });
    socket.emitWithAck("join", "den").then(() => {
      for (let n = 0; n < 2000; n++) socket.emit("say", { room: "den", text: "x".repeat(20_000) });
    });`;
  const flood = new Worker(code, { eval: true, workerData: gateway.url });
  ends.push(() => flood.terminate());
  // Nobody here reads for so long.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5000);
  assert.deepEqual(await rooms, ["den"]);
  assert.ok(heard < 2000, `${heard} of 2000`);
});
