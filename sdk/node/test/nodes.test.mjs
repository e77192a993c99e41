// Several nodes: gateways and the Redis between them.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { redis, stage } from "./stage.mjs";

test("a worker of two nodes hears once of a third that is gone", async (t) => {
  const { child, config } = await redis();
  t.after(() => child.kill("SIGKILL"));
  const nodes = await Promise.all([1, 2, 3].map(() => stage("", `${config}[server]\ndrain_window = "100ms"`)));
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

test("a broadcast with ack to a node that said nothing was a success", async (t) => {
  const { child, config } = await redis();
  t.after(() => child.kill("SIGKILL"));
  const [near, far] = await Promise.all([1, 2].map(() => stage("", config)));
  t.after(() => Promise.all([near.close(), far.close()]));
  await far.server();
  const io = await near.server();
  const clients = [near, far].map(({ open }, at) => open("/", { transports: ["websocket"] }).on("ready?", (done) => done(at)));
  t.after(() => clients.forEach((client) => client.disconnect()));
  await Promise.all(clients.map((client) => once(client, "connect")));
  while ((await io.fetchSockets()).length !== 2) await sleep(20);
  assert.deepEqual((await io.timeout(60_000).emitWithAck("ready?")).sort(), [0, 1]);
  far.stop("SIGSTOP");
  await assert.rejects(io.timeout(500).emitWithAck("ready?"), { message: "operation has timed out", responses: [0] });
  far.stop("SIGCONT");
});

test("a drained node kept workers and other nodes waiting for answers", async (t) => {
  const { child, config } = await redis();
  t.after(() => child.kill("SIGKILL"));
  const [near, far] = await Promise.all([1, 2].map(() => stage("", config)));
  t.after(() => Promise.all([near.close(), far.close()]));
  // One has links to both nodes, the other one to the node that stays.
  const both = await near.server({ gateway: [near.workers, far.workers] });
  const one = await near.server();
  const clients = [near, far].map(({ open }) => open("/", { transports: ["websocket"] }));
  t.after(() => clients.forEach((client) => client.disconnect()));
  await Promise.all(clients.map((client) => once(client, "connect")));
  const call = (path, method) => fetch(`${near.admin}/v1/nodes${path}`, { method, headers: { authorization: `Bearer ${near.key}` } });
  const nodes = async () => (await (await call("", "GET")).json()).nodes;
  assert.equal((await call(`/${far.number}/drain`, "POST")).status, 202);
  while ((await nodes()).some(({ number }) => number === far.number)) await sleep(20);
  // What was asked just when the link broke waits for that link.
  for (const io of [one, both]) {
    const found = () => Promise.race([io.fetchSockets().catch(() => []), sleep(100, [])]);
    while ((await found()).length !== 1) await sleep(20);
  }
});
