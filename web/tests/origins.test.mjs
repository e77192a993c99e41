// Pages of another origin, in a browser: the table of docs/migration.md, and the gateway's own page.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Gateway } from "./gateway.mjs";
import { launchBrowser } from "./person.mjs";

const WAYS = { polling: ["polling"], websocket: ["websocket"], default: undefined };
const ELSEWHERE = "https://elsewhere.example";

/** What is set, as the table says it, and as a file says it of a page's origin. */
const SETTINGS = {
  neither: () => "",
  "`cors` with its origin": (page) => `cors = ["${page}"]`,
  "`origins` with its origin": (page) => `origins = ["${page}"]`,
  "both with its origin": (page) => `cors = ["${page}"]\norigins = ["${page}"]`,
  "`origins` without its origin": () => `origins = ["${ELSEWHERE}"]`,
};

const folder = mkdtempSync(join(tmpdir(), "sockeye-origins-"));
let browser;
let server;
let origin;

before(async () => {
  browser = await launchBrowser();
  server = createServer((_request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end("<!doctype html><title>a page</title>");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  origin = `http://127.0.0.1:${server.address().port}`;
});

after(async () => {
  await browser?.close();
  server?.close();
  rmSync(folder, { recursive: true });
});

/** A row of the table: whether a page polls, and whether it opens a WebSocket. */
function promised(name) {
  const table = readFileSync(new URL("../../docs/migration.md", import.meta.url), "utf8");
  const rows = table.split("\n").map((line) => line.split("|").map((cell) => cell.trim()));
  const found = rows.filter((cells) => cells[1] === name);
  assert.equal(found.length, 1, `docs/migration.md has no row, or two, of ${name}`);
  return found[0].slice(2, 4);
}

async function gatewayWith(t, settings) {
  const file = join(folder, "sockeye.toml");
  writeFileSync(file, `profile = "socket.io"\n[socketio]\n${settings}\n`);
  const gateway = await Gateway.start("--config", file);
  // Its clients are there still, and a drain would give them time.
  t.after(() => gateway.kill());
  return gateway;
}

/** A page that has the gateway's own client, and tries each way: the transport it ends with, or nothing. */
async function tries(t, gateway, address) {
  const page = await browser.newPage();
  t.after(() => page.close());
  await page.goto(address);
  await page.addScriptTag({ url: `${gateway.url}/socket.io/socket.io.js` });
  const outcome = ([url, transports]) =>
    new Promise((resolve) => {
      const more = transports ? { transports } : {};
      const socket = window.io(url, { forceNew: true, reconnection: false, ...more });
      socket.on("connect_error", () => resolve("none"));
      socket.on("connect", () => {
        const { engine } = socket.io;
        if (transports || engine.transport.name === "websocket") resolve(engine.transport.name);
        else engine.once("upgrade", (transport) => resolve(transport.name));
      });
    });
  const ended = Object.entries(WAYS).map(async ([way, transports]) => [
    way,
    await page.evaluate(outcome, [gateway.url, transports]),
  ]);
  return Object.fromEntries(await Promise.all(ended));
}

for (const [name, settings] of Object.entries(SETTINGS)) {
  test(`a page of another origin, ${name}`, async (t) => {
    const gateway = await gatewayWith(t, settings(origin));
    const [polls, opens] = promised(name);
    const may = (cell, transport) => (cell.startsWith("yes") ? transport : "none");
    assert.deepEqual(await tries(t, gateway, origin), {
      polling: may(polls, "polling"),
      websocket: may(opens, "websocket"),
      // It begins with a poll.
      default: may(polls, "websocket"),
    });
    const answer = await fetch(`${gateway.url}/socket.io/?EIO=4&transport=polling`, {
      headers: { Origin: origin },
    });
    await answer.arrayBuffer();
    assert.equal(answer.status, polls.includes("403") ? 403 : 200);
  });
}

test("the gateway's own page, though others alone are listed", async (t) => {
  const gateway = await gatewayWith(t, `origins = ["${ELSEWHERE}"]`);
  assert.deepEqual(await tries(t, gateway, gateway.url), {
    polling: "polling",
    websocket: "websocket",
    default: "websocket",
  });
});
