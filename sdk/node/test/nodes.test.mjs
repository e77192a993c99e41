// Several nodes: gateways and the Redis between them.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { stage } from "./stage.mjs";

async function redis() {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address();
  await new Promise((done) => free.close(done));
  const child = spawn("redis-server", ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", mkdtempSync(join(tmpdir(), "sockeye-redis-"))].map(String), {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) if (line.includes("Ready to accept connections")) break;
  child.stdout.resume();
  return { child, config: `[cluster]\nadapter = "redis"\nurls = ["redis://127.0.0.1:${port}"]\nsecret = "of this test alone"\n[server]\ndrain_window = "100ms"` };
}

test("a worker of two nodes hears once of a third that is gone", async (t) => {
  const { child, config } = await redis();
  t.after(() => child.kill("SIGKILL"));
  const nodes = await Promise.all([1, 2, 3].map(() => stage("", config)));
  t.after(() => Promise.all(nodes.map((node) => node.close())));
  const [near, far, lost] = nodes;
  const serve = (io) => {
    io.on("connection", (socket) => socket.on("count", (done) => io.fetchSockets().then((all) => done(all.length))));
    return io;
  };
  await lost.server({}, serve);
  // Each node of the two has a worker of its own beside the one of both.
  const heard = [near, far].map((node) => new Promise((resolve) => node.server({}, (io) => serve(io).onNodeGone(resolve))));
  const gone = [];
  const both = await near.server({ gateway: [near.workers, far.workers] }, (io) => serve(io).onNodeGone((node) => gone.push(node)));
  const clients = nodes.map(({ open }) => open("/", { transports: ["websocket"] }));
  t.after(() => clients.forEach((client) => client.disconnect()));
  await Promise.all(clients.map((client) => once(client, "connect")));
  // The nodes know each other.
  const count = (client) => new Promise((resolve) => client.emit("count", resolve));
  for (const client of clients.slice(0, 2)) while ((await count(client)) !== 3) await sleep(20);
  lost.stop();
  const [node, same] = await Promise.all(heard);
  assert.equal(node, same);
  // What was said to it is handled before its end.
  await both.close();
  assert.deepEqual(gone, [node]);
});
