// Workers attach by a Unix socket, to the real gateway. SOCKEYE_BIN names the binary.
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdtempSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Server } from "@sockeye/server";
import { stage, until } from "./stage.mjs";

test("a worker finds the gateway by its file, and the next one when that was killed", async (t) => {
  const path = join(mkdtempSync(join(tmpdir(), "sockeye-")), "w.sock");
  const first = await stage("", "", "", `unix:${path}`);
  t.after(() => first.close());
  assert.equal(first.workers, `unix:${path}`);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const large = "x".repeat(4 << 20);
  const io = await first.server({ gateway: `unix://${path}` }, (io) =>
    io.on("connection", (socket) => socket.on("echo", (value, done) => done(value === "large" ? large : value))),
  );
  const asks = async (gateway) => {
    const socket = gateway.open("/", { transports: ["websocket"] });
    await once(socket, "connect");
    for (const value of [1, "two", { three: [3] }]) assert.deepEqual(await socket.emitWithAck("echo", value), value);
    // What is large is read elsewhere than on a shard.
    assert.equal((await socket.emitWithAck("echo", "large")).length, large.length);
    assert.equal(await socket.emitWithAck("echo", 4), 4);
    socket.close();
  };
  await asks(first);
  await first.kill();
  const second = await stage("", "", "", `unix:${path}`);
  t.after(() => second.close());
  await asks(second);
  await io.close();
  second.stop("SIGTERM");
  await until(() => !existsSync(path));
});

test("a worker that wants TLS from a Unix socket is told so", () => {
  assert.throws(() => new Server({ gateway: "unix:/run/w.sock", key: "k", backend: "kitchen", tls: {} }), /a Unix socket has none/);
  assert.throws(() => new Server({ gateway: "unix:w.sock", key: "k", backend: "kitchen" }), /or unix:\/path/);
});
