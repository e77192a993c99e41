// Clients that come back to another node, whose worker they never met.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { io as connect } from "socket.io-client";
import { redis, stage, until, way } from "./stage.mjs";

const RECOVERS = 'recovery = { level = "node" }';
const TABLES = '[namespaces."*".recovery]\nlevel = "node"\n[server]\nshards = 2\n';

async function nodes(t, count) {
  const { child, config } = await redis();
  t.after(() => child.kill("SIGKILL"));
  const all = await Promise.all(Array.from({ length: count }, () => stage("", RECOVERS, config + TABLES)));
  t.after(() => Promise.all(all.map((node) => node.close())));
  return all;
}

const host = ({ url }) => new URL(url).host;

async function client(t, node, namespace = "/") {
  const road = await way(host(node));
  const socket = connect(`http://${road.address}${namespace}`, { transports: ["websocket"], forceNew: true, reconnectionDelay: 50, reconnectionDelayMax: 50 });
  t.after(() => (socket.disconnect(), road.close()));
  await once(socket, "connect");
  return { socket, road };
}

/** Cuts it off, does something meanwhile, and waits until another node has it. */
async function moves({ socket, road }, to, meanwhile) {
  const back = once(socket, "connect");
  road.lead(undefined);
  await once(socket, "disconnect");
  await meanwhile();
  road.lead(host(to));
  await back;
}

async function metric(node, name) {
  const text = await (await fetch(`${node.admin}/metrics`)).text();
  return Number(text.split("\n").find((line) => line.startsWith(`${name} `))?.split(" ")[1] ?? 0);
}

/** Each node knows the sockets of the other. */
const meet = (servers, count) => until(async () => (await Promise.all(servers.map((io) => io.fetchSockets().catch(() => [])))).every((all) => all.length === count));

function serve(seen) {
  return (io) => {
    for (const nsp of [io, io.of("/game")]) {
      nsp.use((socket, next) => (seen.push("middleware"), next()));
      nsp.on("connection", (socket) => {
        seen.push(socket.recovered ? "recovered" : "new");
        if (!socket.recovered) {
          socket.data.name = "ann";
          socket.join("den");
        }
        socket.on("where", (done) => done({ rooms: [...socket.rooms].sort(), data: socket.data, id: socket.id }));
        socket.on("disconnect", () => seen.push("gone"));
      });
    }
  };
}

for (const namespace of ["/", "/game"]) {
  test(`a client goes from node to node, from worker to worker, and misses nothing: ${namespace}`, async (t) => {
    const all = await nodes(t, 2);
    const seen = [[], []];
    const servers = await Promise.all(all.map((node, at) => node.server({ connectionStateRecovery: {} }, serve(seen[at]))));
    const guest = await client(t, all[0], namespace);
    const { socket } = guest;
    await meet(servers.map((io) => io.of(namespace)), 1);
    const { id } = socket;
    const said = [];
    socket.on("said", (n) => said.push(n));
    await socket.emitWithAck("where");
    let number = 0;
    const expected = [];
    for (let round = 0; round < 6; round++) {
      const [from, to] = round % 2 === 0 ? [0, 1] : [1, 0];
      seen.forEach((own) => (own.length = 0));
      const own = [];
      await moves(guest, all[to], async () => {
        await until(() => seen[from].includes("gone"));
        for (const at of [from, to]) {
          const io = servers[at].of(namespace);
          io.to("den").emit("said", ++number);
          io.to(id).emit("said", ++number);
          io.emit("said", ++number);
          own.push(number - 2, number - 1, number);
        }
      });
      assert.ok(socket.recovered, `round ${round}`);
      assert.equal(socket.id, id);
      await until(() => said.length >= expected.length + own.length).catch((error) => {
        throw new Error(`round ${round}: of ${own} came ${said.slice(expected.length)}`, { cause: error });
      });
      // Those of one node keep their order.
      const news = said.slice(expected.length);
      for (const half of [own.slice(0, 3), own.slice(3)]) assert.deepEqual(news.filter((n) => half.includes(n)), half);
      expected.push(...news);
      assert.deepEqual(await socket.emitWithAck("where"), { rooms: [id, "den"].sort(), data: { name: "ann" }, id });
      assert.deepEqual(seen[from], ["gone"]);
      assert.deepEqual(seen[to], ["recovered"]);
      // It is reached by its id and its room from the worker that it left, and from the one that it has now.
      for (const at of [from, to]) {
        servers[at].of(namespace).to(id).emit("said", ++number);
        servers[at].of(namespace).to("den").emit("said", ++number);
        await until(() => said.includes(number));
      }
      assert.deepEqual(said.length, number);
      expected.splice(0, expected.length, ...said);
    }
    assert.deepEqual([...said].sort((a, b) => a - b), Array.from({ length: number }, (_, n) => n + 1));
  });
}

/** A worker process of a node. */
async function kitchen(t, node) {
  const program = fileURLToPath(new URL("kitchen.mjs", import.meta.url));
  const child = spawn(process.execPath, [program, node.workers, node.key], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  for await (const line of createInterface({ input: child.stdout })) if (line === "ready") break;
  child.stdout.resume();
  return child;
}

test("a client whose worker was killed while it was away finds the worker of another node", async (t) => {
  const [near, far] = await nodes(t, 2);
  const [doomed] = await Promise.all([kitchen(t, near), kitchen(t, far)]);
  const guest = await client(t, near);
  const { socket } = guest;
  const { id } = socket;
  const news = [];
  socket.on("news", (n) => news.push(n));
  await socket.emitWithAck("echo", 0);
  for (const node of [near, far]) await until(async () => (await metric(node, "sockeye_cluster_peers")) === 1);
  await moves(guest, far, async () => {
    doomed.kill("SIGKILL");
    await once(doomed, "exit");
    const other = far.open("/");
    t.after(() => other.disconnect());
    await once(other, "connect");
    for (const n of [7, 8]) other.emit("news", n);
    await other.emitWithAck("echo", 0);
  });
  assert.ok(socket.recovered);
  assert.equal(socket.id, id);
  await until(() => news.length >= 2);
  const who = await socket.emitWithAck("who");
  assert.deepEqual(
    who.find(([one]) => one === id),
    [id, { since: "start" }],
  );
  assert.deepEqual(news, [7, 8]);
});

test("where a worker speaks to both nodes by itself, a client that comes to the other is a new one, and is told", async (t) => {
  const all = await nodes(t, 2);
  const [near, far] = all;
  const seen = [];
  const io = await near.server({ gateway: [near.workers, far.workers], connectionStateRecovery: {} }, serve(seen));
  const guest = await client(t, near);
  const { socket } = guest;
  const { id } = socket;
  // A node that has met no other knows of nobody who might keep the socket.
  for (const node of all) await until(async () => (await metric(node, "sockeye_cluster_peers")) === 1);
  io.to("den").emit("said", 1);
  await moves(guest, far, async () => {});
  assert.equal(socket.recovered, false);
  assert.notEqual(socket.id, id);
  assert.equal(await metric(far, 'sockeye_returns_total{outcome="nodes"}'), 1);
  // At its own node it comes back.
  const now = socket.id;
  await moves(guest, far, async () => io.to("den").emit("said", 2));
  assert.equal(socket.id, now);
});
