// The stock client of Socket.IO by WebTransport in Chromium: straight, and on the way up from long-polling.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { freePort } from "../../conformance/ports.mjs";
import { Gateway } from "./gateway.mjs";
import { launchBrowser } from "./person.mjs";

const folder = mkdtempSync(join(tmpdir(), "sockeye-webtransport-"));
const file = (name) => join(folder, name);
let browser;
let gateway;
let port;

/** Browsers take a certificate by its hash only if it is of ECDSA and ends within two weeks. */
function certify() {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const files = ["-keyout", file("key.pem"), "-out", file("cert.pem")];
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  execFileSync("openssl", ["req", "-x509", "-days", "10", ...key, ...files, ...names], {
    stdio: "ignore",
  });
}

/** SHA-256 of the certificate. */
function hash() {
  const { fingerprint256 } = new X509Certificate(readFileSync(file("cert.pem")));
  return fingerprint256.split(":").map((byte) => Number.parseInt(byte, 16));
}

before(async () => {
  certify();
  port = await freePort();
  writeFileSync(
    file("sockeye.toml"),
    `profile = "socket.io"
[tls]
listen = ["127.0.0.1:${port}"]
cert = ["cert.pem"]
key = ["key.pem"]
check_interval = "100ms"
[socketio]
transports = ["polling", "websocket", "webtransport"]
[namespaces."/"]
client_joins = true
[namespaces."/".events.echo]
action = "reply"
[namespaces."/".events.say]
action = "rooms"
room_field = "room"
`,
  );
  browser = await launchBrowser("--disable-quic");
  gateway = await Gateway.start("--config", file("sockeye.toml"));
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
  rmSync(folder, { recursive: true });
});

/** A page of the gateway's own, by TLS, with its client. */
async function open(t) {
  const page = await browser.newPage({ bypassCSP: true, ignoreHTTPSErrors: true });
  t.after(() => page.close());
  const url = `https://127.0.0.1:${port}/socket.io/socket.io.js`;
  await page.goto(url);
  await page.addScriptTag({ url });
  await page.evaluate((hash) => {
    const certificate = { algorithm: "sha-256", value: Uint8Array.from(hash) };
    const options = { webtransport: { serverCertificateHashes: [certificate] } };
    window.come = (transports) =>
      window.io({ forceNew: true, transports, transportOptions: options });
    window.once = (socket, event) => new Promise((resolve) => socket.once(event, resolve));
    window.ask = (socket, ...args) => new Promise((resolve) => socket.emit(...args, resolve));
  }, hash());
  return page;
}

for (const transports of [["webtransport"], ["polling", "webtransport"]]) {
  test(`text and binary go there and back: ${transports.join(", then ")}`, async (t) => {
    const page = await open(t);
    const seen = await page.evaluate(async (transports) => {
      const socket = window.come(transports);
      const upgraded = new Promise((resolve) => socket.io.engine.once("upgrade", resolve));
      await window.once(socket, "connect");
      if (transports.length > 1) await upgraded;
      const back = [];
      for (const text of ["😀 é \u2028", "x".repeat(200), "x".repeat(70_000), "y".repeat(900_000)])
        back.push((await window.ask(socket, "echo", text)) === text);
      const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => i).buffer;
      const answer = await window.ask(socket, "echo", { bytes });
      back.push(new Uint8Array(answer.bytes).every((byte, i) => byte === i % 256));
      const transport = socket.io.engine.transport.name;
      socket.close();
      return { back, transport };
    }, transports);
    assert.deepEqual(seen, { back: [true, true, true, true, true], transport: "webtransport" });
  });
}

test("a refused request tells its reason in the end of the session", async (t) => {
  const page = await open(t);
  const ended = await page.evaluate(
    async ({ hash, port }) => {
      const certificate = { algorithm: "sha-256", value: Uint8Array.from(hash) };
      const url = `https://127.0.0.1:${port}/socket.io/`;
      const session = new WebTransport(url, { serverCertificateHashes: [certificate] });
      await session.ready;
      const { writable } = await session.createBidirectionalStream();
      const opening = new TextEncoder().encode('0{"sid":"n2tYsQdc0rQqRtH-AABg"}');
      await writable.getWriter().write(Uint8Array.of(opening.length, ...opening));
      const { closeCode, reason } = await session.closed;
      return { closeCode, reason };
    },
    { hash: hash(), port },
  );
  assert.equal(ended.closeCode, 400);
  assert.match(ended.reason, /Session ID unknown/);
});

test("members by three transports are in one room", async (t) => {
  const page = await open(t);
  const heard = await page.evaluate(async () => {
    const ways = ["polling", "websocket", "webtransport"];
    const all = ways.map((way) => window.come([way]));
    await Promise.all(all.map((socket) => window.once(socket, "connect")));
    await Promise.all(all.map((socket) => window.ask(socket, "join", "lab")));
    const lists = all.map(() => []);
    all.forEach((socket, i) => {
      socket.on("say", ({ by, n }) => lists[i].push(`${by} ${n}`));
    });
    for (let n = 0; n < 50; n += 1)
      for (const [i, socket] of all.entries()) socket.emit("say", { room: "lab", by: ways[i], n });
    const until = Date.now() + 20_000;
    while (lists.some((list) => list.length < 100) && Date.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 20));
    for (const socket of all) socket.close();
    return lists;
  });
  for (const list of heard) {
    assert.equal(list.length, 100);
    for (const way of ["polling", "websocket", "webtransport"]) {
      const numbers = list.filter((said) => said.startsWith(`${way} `));
      const inOrder = numbers.map((_, n) => `${way} ${n}`);
      assert.deepEqual(numbers, inOrder.slice(0, numbers.length));
    }
  }
});

test("a client whose gateway ends comes back to the next one, which has another certificate", async (t) => {
  const page = await open(t);
  await page.evaluate(async () => {
    window.socket = window.come(["webtransport"]);
    window.why = [];
    window.socket.on("disconnect", (why) => window.why.push(why));
    await window.once(window.socket, "connect");
  });
  assert.equal(await gateway.stop(), 0);
  await page.waitForFunction(() => window.why.length > 0);
  certify();
  await gateway.restart();
  await page.evaluate(async (hash) => {
    const { socket } = window;
    const certificate = { algorithm: "sha-256", value: Uint8Array.from(hash) };
    socket.io.opts.transportOptions.webtransport.serverCertificateHashes = [certificate];
    if (!socket.connected) await window.once(socket, "connect");
    await window.ask(socket, "echo", "back");
    socket.close();
  }, hash());
});
