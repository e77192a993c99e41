// Two nodes behind a proxy without memory: one room, one count, and a person whose node is gone is on the other one.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Gateway, freePort } from "./gateway.mjs";
import { Person, launchBrowser } from "./person.mjs";

const folder = mkdtempSync(join(tmpdir(), "sockeye-nodes-"));
let browser;
let redis;
let nodes;
let proxy;

async function startRedis() {
  const port = await freePort();
  const args = ["--port", String(port), "--save", ""];
  redis = spawn("redis-server", args, { cwd: folder, stdio: "ignore" });
  let failure;
  redis.on("error", (error) => (failure = error));
  while (!(await answers(port)))
    if (failure) throw new Error(`cannot run redis-server: ${failure.message}`);
  return `redis://127.0.0.1:${port}`;
}

async function answers(port) {
  const socket = connect(port, "127.0.0.1");
  const open = await Promise.race([
    once(socket, "connect").then(() => true),
    once(socket, "error").then(() => false),
  ]).catch(() => false);
  socket.destroy();
  return open;
}

/** Each connection goes to the next node that takes it. */
async function startProxy() {
  let next = 0;
  const forward = (client, tries) => {
    const node = nodes[next++ % nodes.length];
    const upstream = connect(node.port, "127.0.0.1");
    upstream.once("connect", () => {
      client.pipe(upstream).pipe(client);
    });
    upstream.once("close", () => client.destroy());
    upstream.on("error", () => {});
    upstream.once("error", () => {
      if (tries > 0 && upstream.bytesRead === 0 && upstream.bytesWritten === 0) {
        upstream.removeAllListeners("close");
        forward(client, tries - 1);
      }
    });
    client.on("error", () => upstream.destroy());
    client.once("close", () => upstream.destroy());
  };
  const server = createServer((client) => forward(client, nodes.length));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

before(async () => {
  const url = await startRedis();
  const config = join(folder, "sockeye.toml");
  writeFileSync(config, `[cluster]\nadapter = "redis"\nurls = ["${url}"]\nsecret = "s"\n`);
  nodes = [await Gateway.start("--config", config), await Gateway.start("--config", config)];
  proxy = await startProxy();
  browser = await launchBrowser();
});

after(async () => {
  await browser?.close();
  proxy?.close();
  for (const node of nodes ?? []) await node.stop();
  redis?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

test("people of two nodes are in one room and one count, and a node that dies costs nobody the room", async () => {
  const url = `http://127.0.0.1:${proxy.address().port}`;
  const ada = await Person.arrive(browser, { url }, "Ada");
  const bob = await Person.arrive(browser, nodes[0], "Bob");
  const eve = await Person.arrive(browser, nodes[1], "Eve");
  for (const person of [ada, bob, eve]) await person.seesPresence(3);
  await ada.say("to everybody");
  for (const person of [bob, eve]) assert.equal(await person.sees("to everybody"), 1);
  await bob.say("from the first node");
  await eve.say("from the second node");
  for (const person of [ada, bob, eve]) {
    assert.equal(await person.sees("from the first node"), 1);
    assert.equal(await person.sees("from the second node"), 1);
  }
  await bob.leave();
  for (const person of [ada, eve]) await person.seesPresence(2);
  // Ada was on either node; she finds the one that is left.
  await nodes[0].kill();
  await ada.isOnline();
  await eve.say("is anybody there?");
  assert.equal(await ada.sees("is anybody there?"), 1);
  await ada.say("I am");
  assert.equal(await eve.sees("I am"), 1);
  for (const person of [ada, eve]) await person.seesPresence(2);
  for (const person of [ada, eve]) person.assertNoErrors();
});
