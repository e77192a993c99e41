// Order and completeness, above all while the connection moves up from polling.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, connected, holdUpgrade, once, record, upgraded } from "../peer/stock.js";
import { eventually, sleep } from "../peer/patience.js";

const upTo = (count) => Array.from({ length: count }, (_, i) => i);

export function order(client) {
  test("a burst of 500 events from the server arrives complete and in order", async (t) => {
    const socket = await client.connect(t);
    const seen = record(socket, "tick");
    socket.emit("burst", "tick", 500);
    await eventually(() => seen.length >= 500, "500 events came");
    assert.deepEqual(seen, upTo(500));
  });

  test("a burst of 500 events from the client arrives complete and in order", async (t) => {
    const socket = await client.connect(t);
    const seen = record(socket, "echo");
    upTo(500).forEach((i) => socket.emit("echo", i));
    await eventually(() => seen.length >= 500, "500 echoes came");
    assert.deepEqual(seen, upTo(500));
  });

  if (!client.upgrades) return;
  const goal = client.transports.at(-1);

  for (let round = 1; round <= 3; round++) {
    test(`hundreds of events each way while upgrading, round ${round}`, async (t) => {
      const socket = client.create(t);
      const release = holdUpgrade(socket);
      await connected(socket);
      assert.equal(socket.io.engine.transport.name, "polling");
      const echoes = record(socket, "echo");
      const ticks = record(socket, "tick");
      const traffic = { sent: 0, bursts: 0, over: false };
      const sending = sendUntilOver(socket, traffic, round);
      await eventually(() => echoes.length >= 50, "traffic flows over polling");
      release();
      await upgraded(socket);
      await eventually(() => traffic.sent >= 400, "some traffic after the upgrade");
      traffic.over = true;
      await sending;
      await eventually(() => echoes.length >= traffic.sent && ticks.length >= traffic.bursts * 20, "everything came", 15_000);
      assert.equal(socket.io.engine.transport.name, goal);
      assert.deepEqual(echoes, upTo(traffic.sent));
      assert.deepEqual(ticks, Array.from({ length: traffic.bursts }, () => upTo(20)).flat());
    });
  }

  test("the server reports polling before and the other transport after the upgrade, the ids stay", async (t) => {
    const socket = client.create(t);
    const release = holdUpgrade(socket);
    await connected(socket);
    const { id } = socket;
    const sid = socket.io.engine.id;
    assert.equal((await ask(socket, "who"))[0].transport, "polling");
    release();
    await upgraded(socket);
    const [who] = await ask(socket, "who");
    assert.equal(who.transport, goal);
    // Clients of version 2 name their sockets by the session; the server has names of its own.
    if (!client.version.startsWith("2.")) assert.equal(who.id, id);
    assert.equal(socket.io.engine.id, sid);
  });

  test("broadcasts from another client during the upgrade come complete and in order", async (t) => {
    const sender = await client.connect(t);
    await upgraded(sender);
    const room = `moving-${sender.id}`;
    const socket = client.create(t);
    const release = holdUpgrade(socket);
    await connected(socket);
    await ask(socket, "join", room);
    const seen = record(socket, "tick");
    const moved = upgraded(socket);
    let sent = 0;
    for (let i = 0; i < 200; i++) {
      sender.emit("to", room, "tick", sent++);
      sender.emit("to", room, "tick", sent++);
      if (i === 20) release();
      if (i % 10 === 0) await sleep(1);
    }
    await moved;
    sender.emit("to", room, "last", 0);
    await once(socket, "last");
    assert.deepEqual(seen, upTo(sent));
  });
}

/** Ten echoes and a burst of twenty at a time, until the test says it is over. */
async function sendUntilOver(socket, traffic, pause) {
  while (!traffic.over) {
    for (let i = 0; i < 10; i++) socket.emit("echo", traffic.sent++);
    socket.emit("burst", "tick", 20);
    traffic.bursts++;
    await sleep(pause);
  }
}
