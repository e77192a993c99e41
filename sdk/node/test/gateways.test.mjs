// One server at two gateways of a cluster.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { stage } from "./stage.mjs";

const ROUNDS = 20;
let redis;
let gateways;
let io;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

async function peers({ admin }) {
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  return Number(/^sockeye_cluster_peers (\d+)/m.exec(metrics)?.[1]);
}

before(async () => {
  const port = await freePort();
  redis = spawn("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--loglevel", "notice"], { stdio: ["ignore", "pipe", "ignore"] });
  for await (const text of redis.stdout) if (String(text).includes("Ready to accept connections")) break;
  const cluster = `[cluster]\nadapter = "redis"\nurls = ["redis://127.0.0.1:${port}"]\n`;
  gateways = await Promise.all([1, 2].map(() => stage("", "", cluster)));
  for (const gateway of gateways) while ((await peers(gateway)) !== 1) await new Promise((resolve) => setTimeout(resolve, 20));
  io = await gateways[0].server({ gateway: gateways.map(({ workers }) => workers) });
});

after(async () => {
  for (const gateway of gateways ?? []) await gateway.close();
  redis?.kill("SIGKILL");
});

/** The first event of each name that comes to a client. */
function heard(client, name) {
  return new Promise((resolve) => client.once(name, resolve));
}

test("a broadcast and a question right behind a join missed a socket at the second gateway", async () => {
  let rooms = 0;
  io.on("connection", (socket) => {
    socket.on("join", async (done) => {
      const room = `room ${++rooms}`;
      socket.join(room);
      io.to(room).emit("joined", room);
      const answers = io.to(room).timeout(20_000).emitWithAck("asked");
      const found = await io.in(room).fetchSockets();
      done(room, found.map(({ id }) => id), await answers);
    });
    socket.on("leave", (room) => {
      socket.leave(room);
      io.to(room).emit("left to others");
      socket.emit("last");
    });
  });
  for (const gateway of gateways) {
    const client = gateway.open();
    client.on("asked", (done) => done("here"));
    const missed = [];
    client.on("left to others", () => missed.push("an event behind a leave"));
    await heard(client, "connect");
    for (let round = 0; round < ROUNDS; round++) {
      const joined = heard(client, "joined");
      const [room, found, answers] = await new Promise((resolve) => client.emit("join", (...told) => resolve(told)));
      assert.equal(await joined, room);
      assert.deepEqual([found, answers], [[client.id], ["here"]]);
      const last = heard(client, "last");
      client.emit("leave", room);
      await last;
    }
    assert.deepEqual(missed, []);
    client.disconnect();
  }
});
