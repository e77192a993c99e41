// Several nodes: gateways and the Redis between them.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { redis, stage } from "./stage.mjs";

test("a worker of two nodes hears once of a third that is gone", async (t) => {
  const { child, url } = await redis();
  const config = `[cluster]\nadapter = "redis"\nurls = ["${url}"]\nsecret = "of this test alone"\n[server]\ndrain_window = "100ms"`;
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
