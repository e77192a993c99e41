// Pages that lose their connection and come back: the stock client in a browser, on each transport, by a reset and where the gateway notices nothing.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { io } from "socket.io-client";
import { Cable } from "../../conformance/js/peer/cable.js";
import { Gateway } from "./gateway.mjs";
import { launchBrowser } from "./person.mjs";

const modules = join(dirname(fileURLToPath(import.meta.url)), "../node_modules");
const BUNDLE = readFileSync(join(modules, "socket.io-client/dist/socket.io.js"), "utf8");
const RULES = `profile = "socket.io"
[server]
shards = 2
[namespaces."/"]
client_joins = true
[namespaces."/".recovery]
level = "node"
[namespaces."/".events.say]
action = "rooms"
room_field = "room"
`;
const WAYS = { WebSocket: ["websocket"], polling: ["polling"], upgrade: ["polling", "websocket"] };

let browser;
let gateway;
const folder = mkdtempSync(join(tmpdir(), "sockeye-recovery-"));

before(async () => {
  const config = join(folder, "sockeye.toml");
  writeFileSync(config, RULES);
  browser = await launchBrowser();
  gateway = await Gateway.start("--config", config);
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
  rmSync(folder, { recursive: true });
});

/** Somebody in the room whose connection stays. */
async function speaker(t, room) {
  const socket = io(gateway.url, { transports: ["websocket"], forceNew: true });
  t.after(() => socket.disconnect());
  await socket.emitWithAck("join", room);
  return socket;
}

/** A page that is in the room and notes what it hears and how it connects. */
async function listener(t, url, room, transports) {
  const page = await browser.newPage({ bypassCSP: true });
  t.after(() => page.close());
  await page.goto(`${url}/socket.io/socket.io.js`);
  await page.addScriptTag({ content: BUNDLE });
  await page.evaluate(
    async ({ room, transports }) => {
      const [heard, connects, losses] = [[], [], []];
      const socket = window.io({ transports, reconnectionDelay: 100, reconnectionDelayMax: 200 });
      Object.assign(window, { heard, connects, losses, socket });
      socket.on("say", ({ n }) => heard.push(n));
      socket.on("connect", () => connects.push({ id: socket.id, recovered: socket.recovered }));
      socket.on("disconnect", (why) => losses.push(why));
      await socket.emitWithAck("join", room);
    },
    { room, transports },
  );
  const last = transports.at(-1);
  await page.waitForFunction((last) => window.socket.io.engine.transport.name === last, last);
  return page;
}

for (const [way, transports] of Object.entries(WAYS)) {
  test(`a page that was cut has its socket again, and all that was said meanwhile: ${way}`, async (t) => {
    const cable = await Cable.lay(t, gateway.url);
    const speaks = await speaker(t, way);
    const page = await listener(t, cable.url, way, transports);
    const said = [];
    const say = () => {
      for (let more = 0; more < 3; more++) {
        speaks.emit("say", { room: way, n: said.length });
        said.push(said.length);
      }
    };
    for (const [round, cut] of ["reset", "silence"].entries()) {
      say();
      cable[cut](page.waitForFunction((count) => window.losses.length === count, round + 1));
      say();
      await page.waitForFunction((count) => window.connects.length === count, round + 2);
      say();
      await page.waitForFunction((count) => window.heard.length >= count, said.length);
    }
    const { heard, connects } = await page.evaluate(() => ({
      heard: window.heard,
      connects: window.connects,
    }));
    assert.deepEqual(heard, said);
    const [{ id }] = connects;
    assert.deepEqual(connects, [
      { id, recovered: false },
      { id, recovered: true },
      { id, recovered: true },
    ]);
  });
}
