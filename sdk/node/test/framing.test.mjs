// Which way a worker takes to its gateway: the cheap one by itself, gRPC where an older gateway knows nothing else.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttp2 } from "node:http2";
import { connect, createServer } from "node:net";
import { after, before, test } from "node:test";
import { stage, until } from "./stage.mjs";

const MAGIC = "SOCKEYE1";
let here;
// A client is sent 10 MB.
before(async () => (here = await stage("", "", "[limits]\noutbox_bytes_max = \"64MiB\"\n")));
after(() => here.close());

const pipe = (near, far) => {
  for (const [end, other] of [[near, far], [far, near]]) {
    end.pipe(other);
    end.on("error", () => other.destroy());
    end.on("close", () => other.destroy());
  }
};

/** A way to the gateway; `meet` gets each connection and its first bytes, and may keep it. */
async function watched(meet) {
  const [host, port] = here.workers.split(":");
  const begins = [];
  const open = new Set();
  const server = createServer((near) => {
    open.add(near);
    near.once("data", (first) => {
      begins.push(first.toString("latin1", 0, MAGIC.length));
      near.pause();
      near.unshift(first);
      if (!meet(near, begins.at(-1))) pipe(near, connect(Number(port), host));
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const close = () => {
    server.close();
    open.forEach((socket) => socket.destroy());
  };
  return { address: `127.0.0.1:${server.address().port}`, begins, cut: () => open.forEach((socket) => socket.destroy()), close };
}

async function echoes(io) {
  io.on("connection", (socket) => socket.on("echo", (value, done) => done(value)));
  const client = here.open("/", { transports: ["websocket"] });
  assert.equal(await client.emitWithAck("echo", 7), 7);
  client.disconnect();
}

test("a worker takes the way without HTTP/2 by itself", async () => {
  const way = await watched(() => false);
  const io = await here.server({ gateway: way.address });
  await echoes(io);
  assert.deepEqual(way.begins, [MAGIC]);
  await io.close();
  way.close();
});

/** As gateways before this library's version are: HTTP/2, and nothing else. */
test("an older gateway is spoken to by gRPC, and asked again when it comes back", async () => {
  let older = true;
  const http2 = createHttp2();
  http2.on("sessionError", () => {});
  const way = await watched((near, begin) => {
    if (!older || begin !== MAGIC) return false;
    http2.emit("connection", near);
    return true;
  });
  const io = await here.server({ gateway: way.address });
  await echoes(io);
  assert.deepEqual(way.begins, [MAGIC, "PRI * HT"]);
  older = false;
  way.cut();
  await until(() => way.begins.length === 3);
  assert.equal(way.begins[2], MAGIC);
  await echoes(io);
  await io.close();
  way.close();
});

test("what closes connections without a word is tried by gRPC as well", async () => {
  const way = await watched((near, begin) => begin === MAGIC && near.destroy());
  const io = await here.server({ gateway: way.address });
  await echoes(io);
  assert.equal(way.begins.at(-1), "PRI * HT");
  assert.ok(way.begins.slice(0, -1).every((begin) => begin === MAGIC), `${way.begins}`);
  await io.close();
  way.close();
});

test("a gateway that says nothing any more is left, and found again", { timeout: 60_000 }, async () => {
  let silent = false;
  const way = await watched((near) => {
    const [host, port] = here.workers.split(":");
    const far = connect(Number(port), host);
    near.pipe(far);
    far.on("data", (bytes) => silent || near.write(bytes));
    for (const end of [near, far]) end.on("error", () => {}).on("close", () => (near.destroy(), far.destroy()));
    return true;
  });
  const io = await here.server({ gateway: way.address });
  silent = true;
  await until(() => way.begins.length === 2);
  silent = false;
  await until(() => way.begins.length >= 2);
  await echoes(io);
  await io.close();
  way.close();
});

/** Each end heard no sign of life of the other while the message was under way, and gave it up. */
test("a message that takes long to a gateway does not end the link", { timeout: 60_000 }, async () => {
  const way = await watched((near) => {
    const [host, port] = here.workers.split(":");
    const far = connect(Number(port), host);
    far.pipe(near);
    // 800 kB/s.
    near.on("data", (bytes) => {
      far.write(bytes);
      near.pause();
      setTimeout(() => near.resume(), bytes.length / 800);
    });
    near.resume();
    for (const end of [near, far]) end.on("error", () => {}).on("close", () => (near.destroy(), far.destroy()));
    return true;
  });
  const io = await here.server({ gateway: way.address });
  const client = here.open("/", { transports: ["websocket"] });
  await once(client, "connect");
  io.emit("large", "x".repeat(10_000_000));
  const [large] = await once(client, "large");
  assert.equal(large.length, 10_000_000);
  assert.deepEqual(way.begins, [MAGIC]);
  client.disconnect();
  await io.close();
  way.close();
});

test("a wrong key is refused in both ways with the same words", async () => {
  const way = await watched((near, begin) => begin === MAGIC && near.destroy());
  const said = [];
  const { error } = console;
  console.error = (line) => said.push(line);
  try {
    for (const gateway of [here.workers, way.address]) {
      await assert.rejects(here.server({ gateway, key: "sockeye_wrong" }), /no backend of this name has this key/);
    }
  } finally {
    console.error = error;
    way.close();
  }
  assert.equal(said.length, 2);
  assert.equal(said[0], said[1]);
});
