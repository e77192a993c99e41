// Intervals that grow with the number of sessions: stock clients, which close themselves if a ping comes later than they were told.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { io as connect } from "socket.io-client";
import { Server } from "@sockeye/server";
import { stage, until } from "./stage.mjs";

const STRETCHED = '[socketio]\nping_interval = "500ms"\nping_timeout = "3s"\n[heartbeat]\nstretch = 8\nper_second_max = 10';
let gateway;
before(async () => (gateway = await stage("", "", STRETCHED)));
after(() => gateway.close());

test("stock clients of both transports live for many intervals of every length", async () => {
  const io = await gateway.server();
  io.on("connection", () => {});
  const clients = [];
  const reasons = [];
  for (let n = 0; n < 60; n++) {
    const transports = [["websocket"], ["polling"], ["polling", "websocket"]][n % 3];
    const socket = connect(gateway.url, { transports, forceNew: true, reconnection: false });
    socket.on("disconnect", (reason) => reasons.push(reason));
    socket.on("connect_error", (error) => reasons.push(error.message));
    clients.push(socket);
    await until(() => socket.connected);
  }
  const told = clients.map((socket) => socket.io.engine._pingInterval);
  assert.deepEqual([told[0], told[59]], [500, 4_000]);
  assert.ok(new Set(told).size >= 4, `${told}`);
  const pings = clients.map(() => 0);
  clients.forEach((socket, n) => socket.io.on("ping", () => pings[n]++));
  await until(() => pings.every((count) => count >= 3));
  // Those with short intervals are pinged more often.
  assert.ok(pings[0] > 2 * pings[59], `${pings}`);
  assert.deepEqual(reasons, []);
  clients.forEach((socket) => socket.close());
  await io.close();
});

test("an interval is the gateway's, and the gateway may have several", async () => {
  const io = await gateway.server({ pingInterval: 500 });
  await io.close();
  await assert.rejects(gateway.server({ pingInterval: 600 }), /`pingInterval` is 600 here, and the gateway has 500 to 4000; leave it out/);
});
