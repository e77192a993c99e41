// One server at two gateways of a cluster, and a third gateway that has a server of its own.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { redis, stage, until, way } from "./stage.mjs";

const ROUNDS = 30;
let database;
let gateways;
let cable;
let io;

async function metric({ admin }, name) {
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)`, "m").exec(metrics)?.[1]);
}

before(async () => {
  database = await redis();
  const cluster = `[cluster]\nadapter = "redis"\nurls = ["${database.url}"]\n`;
  gateways = await Promise.all([1, 2, 3].map(() => stage("", "", cluster)));
  for (const gateway of gateways) await until(async () => (await metric(gateway, "sockeye_cluster_peers")) === 2);
  cable = await way(gateways[1].workers);
  io = await gateways[0].server({ gateway: [gateways[0].workers, cable.address] });
  await gateways[2].server();
});

after(async () => {
  for (const gateway of gateways ?? []) await gateway.close();
  cable?.close();
  database?.child.kill("SIGKILL");
});

/** Clients of these gateways, which are in; the server's sockets of them are in `room`. */
async function arrive(room, of = gateways) {
  const clients = of.map(({ open }) => open("/", { transports: ["websocket"] }));
  await Promise.all(clients.map((client) => once(client, "connect")));
  const ids = clients.map(({ id }) => id);
  io.in(ids).socketsJoin(room);
  return clients;
}

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
  for (const gateway of gateways.slice(0, 2)) {
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

test("a broadcast right behind a connection missed the newcomer at the second gateway", async () => {
  const greet = (socket) => {
    io.emit("came", socket.id);
    socket.join("hall");
    io.to("hall").emit("joined", socket.id);
  };
  io.on("connection", greet);
  for (const gateway of gateways.slice(0, 2)) {
    for (let round = 0; round < ROUNDS; round++) {
      const client = gateway.open("/", { transports: ["websocket"] });
      const heard = [];
      client.onAny((name, id) => id === client.id && heard.push(name));
      await until(() => heard.length >= 2);
      assert.deepEqual(heard, ["came", "joined"]);
      client.disconnect();
    }
  }
  io.off("connection", greet);
});

test("what a server said to a room and to its members came in another order at the second gateway, or not at all", async () => {
  const leave = (socket) => {
    socket.on("part", (room) => {
      socket.join(room);
      io.to(room).emit("step", 1);
      socket.emit("step", 2);
      io.emit("step", 3, room);
      socket.leave(room);
      io.to(room).emit("step", "to a room that it left");
      io.in(socket.id).socketsJoin(room);
      io.to(room).emit("step", 4);
      socket.emit("step", 5);
      io.in(room).disconnectSockets();
    });
  };
  io.on("connection", leave);
  for (const gateway of gateways.slice(0, 2)) {
    for (let round = 0; round < ROUNDS; round++) {
      const client = gateway.open("/", { transports: ["websocket"] });
      await heard(client, "connect");
      const steps = [];
      client.on("step", (step) => steps.push(step));
      client.emit("part", `part ${client.id}`);
      await heard(client, "disconnect");
      assert.deepEqual(steps, [1, 2, 3, 4, 5]);
    }
  }
  io.off("connection", leave);
});

test("the first client of a gateway missed what was said to all by way of another one, right behind its connect", async () => {
  const near = gateways[0].open("/", { transports: ["websocket"] });
  await heard(near, "connect");
  // Gateways hear nothing of each other: none knows of the newcomer.
  database.child.kill("SIGSTOP");
  const far = gateways[2].open("/", { transports: ["websocket"] });
  const said = [];
  // Only these two: what the test before said to all may still be on its way.
  for (const event of ["to all", "last"]) far.on(event, () => said.push(event));
  try {
    await heard(far, "connect");
    io.emit("to all");
    io.to(far.id).emit("last");
    await heard(near, "to all");
  } finally {
    database.child.kill("SIGCONT");
  }
  await until(() => said.includes("last"));
  assert.deepEqual(said, ["to all", "last"]);
  near.disconnect();
  far.disconnect();
});

test("each broadcast comes once and in order to clients of gateways with and without a link", async () => {
  const clients = await arrive("order");
  const numbers = clients.map((client) => {
    const all = [];
    client.on("number", (number) => all.push(number));
    return all;
  });
  const total = 20 * ROUNDS;
  for (let number = 0; number < total; number++) {
    if (number % 3 === 0) io.emit("number", number);
    else io.to("order").emit("number", number);
    if (number % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await until(() => numbers.every((all) => all.at(-1) === total - 1));
  const expected = Array.from({ length: total }, (_, number) => number);
  for (const all of numbers) assert.deepEqual(all, expected);
  const found = await io.in("order").fetchSockets();
  assert.deepEqual(found.map(({ id }) => id).sort(), clients.map(({ id }) => id).sort());
  for (const client of clients) client.on("asked", (done) => done(client.id));
  const answers = await io.to("order").timeout(20_000).emitWithAck("asked");
  assert.deepEqual(answers.sort(), clients.map(({ id }) => id).sort());
  clients.forEach((client) => client.disconnect());
});

test("a broadcast that was said while a gateway could not be reached came late or not at all", async () => {
  const [far] = await arrive("cut", [gateways[1]]);
  // Others have its sockets meanwhile.
  const other = await gateways[1].server();
  const numbers = [];
  far.on("number", (number) => numbers.push(number));
  const lost = () => metric(gateways[1], 'sockeye_backend_workers_lost_total\\{reason="away"\\}');
  const before = await lost();
  cable.lead(undefined);
  let number = 0;
  // At once, and until the gateway has given the worker up.
  for (; (await lost()) === before; number++) io.to("cut").emit("number", number);
  for (let more = 0; more < 10; more++, number++) io.to("cut").emit("number", number);
  cable.lead(gateways[1].workers);
  await until(() => numbers.length >= number);
  assert.deepEqual(
    numbers.sort((one, two) => one - two),
    Array.from({ length: number }, (_, at) => at),
  );
  await other.close();
});

test("of a broadcast with acks no answer was told when a gateway went meanwhile", async () => {
  let responses = [];
  // A busy machine may keep the answer of the near client for longer than the first time.
  for (let ms = 1_500; responses.length === 0 && ms < 15_000; ms *= 3) {
    const room = `partly ${ms}`;
    const [near, far] = await arrive(room, gateways.slice(0, 2));
    near.on("asked partly", (done) => done("near"));
    far.on("asked partly", () => cable.lead(undefined));
    ({ responses } = await io.to(room).timeout(ms).emitWithAck("asked partly").then(assert.fail, (error) => error));
    cable.lead(gateways[1].workers);
    [near, far].forEach((client) => client.disconnect());
  }
  assert.deepEqual(responses, ["near"]);
});
