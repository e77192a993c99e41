// Several nodes: gateways and the Redis between them.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { redis, stage, until } from "./stage.mjs";

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
  for (const client of clients.slice(0, 2)) await until(async () => (await count(client)) === 3);
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
  const both = () => until(async () => (await io.fetchSockets().catch(() => [])).length === 2);
  await both();
  assert.deepEqual((await io.timeout(60_000).emitWithAck("ready?")).sort(), [0, 1]);
  // The gateway's round ends shortly before Socket.IO's timer: on a busy machine the answers of the near client may come too late.
  for (let responses; responses !== "0"; ) {
    await both();
    far.stop("SIGSTOP");
    await assert.rejects(io.timeout(500).emitWithAck("ready?"), (error) => {
      responses = String(error.responses);
      return error.message === "operation has timed out";
    });
    far.stop("SIGCONT");
  }
});

test("the sockets of a worker whose key was taken out stayed with it for ever, and no handler heard of their end", async (t) => {
  const { child, config } = await redis();
  t.after(() => child.kill("SIGKILL"));
  const [near, far] = await Promise.all([1, 2].map(() => stage("", config)));
  t.after(() => Promise.all([near.close(), far.close()]));
  const ended = [];
  const io = await near.server({ gateway: [near.workers, far.workers] }, (io) => {
    io.on("connection", (socket) => socket.on("disconnect", (reason) => ended.push([socket.id, reason])));
  });
  const clients = [near, far].map(({ open }) => open("/", { transports: ["websocket"] }).on("ready?", (done) => done("yes")));
  t.after(() => clients.forEach((client) => client.disconnect()));
  await Promise.all(clients.map((client) => once(client, "connect")));
  await until(() => io.of("/").sockets.size === 2);
  far.expel();
  await until(() => ended.length > 0);
  assert.deepEqual(ended, [[clients[1].id, "transport close"]]);
  assert.deepEqual([...io.of("/").sockets.keys()], [clients[0].id]);
  assert.equal(io.engine.clientsCount, 1);
  // The other gateway's are still its own.
  assert.equal(await io.of("/").sockets.get(clients[0].id).emitWithAck("ready?"), "yes");
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
  await until(async () => !(await nodes()).some(({ number }) => number === far.number));
  // What was asked just when the link broke waits for that link.
  for (const io of [one, both]) {
    const found = () => Promise.race([io.fetchSockets().catch(() => []), sleep(5_000, [], { ref: false })]);
    await until(async () => (await found()).length === 1);
  }
});
