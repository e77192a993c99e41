// Clients of Socket.IO 2 in a browser, where they send and take binary payloads, and in old ones scripts and forms.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Gateway } from "./gateway.mjs";
import { launchBrowser } from "./person.mjs";

const modules = join(dirname(fileURLToPath(import.meta.url)), "../node_modules");
const BUNDLE = readFileSync(join(modules, "socket.io-client-2.5.0/dist/socket.io.js"), "utf8");
const YOUNG = readFileSync(join(modules, "socket.io-client/dist/socket.io.js"), "utf8");
const RULES = `profile = "socket.io"
[socketio]
allow_eio3 = true
[namespaces."/"]
client_joins = true
[namespaces."/".events.echo]
action = "reply"
[namespaces."/".events.say]
action = "rooms"
room_field = "room"
`;

let browser;
let gateway;
const folder = mkdtempSync(join(tmpdir(), "sockeye-eio3-"));

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

/** A page that the gateway serves itself: from one that a test made up, browsers let no WebSocket go to the own machine. */
async function open() {
  const page = await browser.newPage({ bypassCSP: true });
  await page.goto(`${gateway.url}/socket.io/socket.io.js`);
  await page.addScriptTag({ content: YOUNG });
  await page.evaluate(() => (window.young = window.io));
  await page.addScriptTag({ content: BUNDLE });
  return page;
}

const WAYS = {
  "polling, binary payloads": { transports: ["polling"] },
  "polling, base64": { transports: ["polling"], forceBase64: true },
  "scripts and forms": { transports: ["polling"], forceJSONP: true },
  WebSocket: { transports: ["websocket"] },
  "WebSocket, base64": { transports: ["websocket"], forceBase64: true },
  upgrade: {},
};

for (const [way, options] of Object.entries(WAYS)) {
  test(`text and binary go there and back: ${way}`, async (t) => {
    const page = await open();
    t.after(() => page.close());
    const seen = await page.evaluate(async (options) => {
      const socket = window.io({ forceNew: true, reconnection: false, ...options });
      const lost = new Promise((_, reject) => {
        for (const event of ["disconnect", "connect_error", "connect_timeout", "error"])
          socket.once(event, (why) => reject(new Error(`${event}: ${why}`)));
      });
      const step = (begin) => Promise.race([lost, new Promise(begin)]);
      const ask = (...args) => step((resolve) => socket.emit(...args, resolve));
      // On a busy machine both come in one step: the poll that says "connect" is the one that the upgrade waits for.
      const upgraded = new Promise((resolve) => socket.io.engine.once("upgrade", resolve));
      await step((resolve) => socket.once("connect", resolve));
      if (!options.transports) await step((resolve) => upgraded.then(resolve));
      const texts = ["😀 é \u2028", 'a\\nb\n"\\\\n', "x".repeat(70_000)];
      const back = [];
      for (const text of texts) back.push((await ask("echo", text)) === text);
      const bytes = Uint8Array.from({ length: 1000 }, (_, i) => i).buffer;
      const answer = await ask("echo", { bytes, face: "😀" });
      const blob = answer.bytes instanceof ArrayBuffer ? answer.bytes : null;
      back.push(blob && new Uint8Array(blob).every((byte, i) => byte === i % 256), answer.face);
      const transport = socket.io.engine.transport.name;
      socket.close();
      return { back, transport };
    }, options);
    assert.deepEqual(seen.back, [true, true, true, true, "😀"]);
    assert.equal(seen.transport, options.transports?.[0] ?? "websocket");
  });
}

test("a page with the client of today is in the same room", async (t) => {
  const page = await open();
  t.after(() => page.close());
  const heard = await page.evaluate(async () => {
    const old = window.io({ forceNew: true, transports: ["polling"] });
    const young = window.young({ forceNew: true, transports: ["websocket"] });
    const connected = (socket) => new Promise((resolve) => socket.once("connect", resolve));
    await Promise.all([connected(old), connected(young)]);
    const ask = (socket, ...args) => new Promise((resolve) => socket.emit(...args, resolve));
    await Promise.all([old, young].map((socket) => ask(socket, "join", "both")));
    const next = (socket) => new Promise((resolve) => socket.once("say", resolve));
    const bytes = Uint8Array.of(1, 2, 255).buffer;
    const both = [next(old), next(young)];
    young.emit("say", { room: "both", bytes });
    old.emit("say", { room: "both", bytes });
    const said = await Promise.all(both);
    old.close();
    young.close();
    return said.map(({ bytes }) => [...new Uint8Array(bytes)]);
  });
  assert.deepEqual(heard, [
    [1, 2, 255],
    [1, 2, 255],
  ]);
});
