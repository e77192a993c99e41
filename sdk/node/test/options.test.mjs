// Options of Socket.IO's server that are the gateway's matter: they are compared with what it does, or refused.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { Server } from "@sockeye/server";
import { stage } from "./stage.mjs";

const LISTED = '[socketio]\ncors = ["https://b.example", "https://a.example"]\ncors_headers = ["x-table"]\ntransports = ["websocket"]';
let plain, listed, open;
before(async () => ([plain, listed, open] = await Promise.all([stage(), stage("", "", LISTED), stage("", "", '[socketio]\ncors = ["*"]')])));
after(() => Promise.all([plain, listed, open].map((gateway) => gateway.close())));

const unused = { gateway: "127.0.0.1:1", key: "k", backend: "b" };

test("io.adapter() took an adapter, and ids and rooms were broken", async () => {
  const io = new Server(unused);
  const own = io.adapter();
  assert.throws(() => io.adapter(() => {}), /cannot use io.adapter with @sockeye\/server: the gateway is the cluster: leave it out/);
  assert.throws(() => io.adapter(class {}), { code: "SOCKEYE_UNSUPPORTED" });
  assert.equal(io.adapter(), own);
  assert.equal(io.of("/later").adapter instanceof own, true);
  await io.close();
});

const REFUSED = [
  [{ cookie: true }, /the option `cookie`/],
  [{ cookie: { name: "io" } }, /the option `cookie`/],
  [{ cors: () => {} }, /a function as the option `cors`/],
  [{ cors: { origin: /example/ } }, /a function or an expression as the option `cors.origin`/],
  [{ cors: { origin: ["https://a.example", /example/] } }, /a function or an expression/],
  [{ cors: { origin: (_, done) => done(null, true) } }, /a function or an expression/],
  [{ cors: { exposedHeaders: "x-a" } }, /`cors.exposedHeaders`/],
];

for (const [options, error] of REFUSED) {
  test(`an option that cannot be met did nothing in silence: ${Object.keys(options)} ${error.source}`, () => {
    assert.throws(() => new Server({ ...unused, ...options }), (thrown) => thrown.code === "SOCKEYE_UNSUPPORTED" && error.test(thrown.message));
  });
}

const DIFFERENT = [
  [() => plain, { cors: { origin: "https://a.example" } }, /`cors.origin` is \[https:\/\/a.example\] here, and the gateway has \[\]; leave it out, or set socketio.cors there/],
  [() => plain, { cors: {} }, /`cors.origin` is \[\*\] here/],
  [() => listed, { cors: { origin: "https://a.example" } }, /`cors.origin`/],
  [() => listed, { cors: { origin: false } }, /`cors.origin` is \[\] here/],
  [() => listed, { cors: { origin: ["https://a.example", "https://b.example"], allowedHeaders: "x-other" } }, /set socketio.cors_headers/],
  [() => listed, { cors: { origin: ["https://a.example", "https://b.example"], maxAge: 5 } }, /`cors.maxAge` is 5 here, and the gateway has 600; leave it out, or set socketio.cors_max_age/],
  [() => listed, { transports: ["polling", "websocket"] }, /`transports` is \[polling, websocket\] here, and the gateway has \[websocket\]; leave it out, or set socketio.transports/],
  [() => plain, { transports: ["polling", "websocket", "webtransport"] }, /`transports`/],
  [() => open, { cors: { origin: true, credentials: true } }, /`cors.credentials` is true here, and the gateway has false/],
  [() => plain, { upgradeTimeout: 1 }, /set socketio.upgrade_timeout/],
];

for (const [gateway, options, error] of DIFFERENT) {
  test(`another value than the gateway's did nothing in silence: ${JSON.stringify(options)}`, async () => {
    const io = new Server({ gateway: gateway().workers, key: gateway().key, backend: "kitchen", ...options });
    await assert.rejects(io.ready, error);
    await io.close();
  });
}

test("the gateway's own values are taken, in any order and case", async () => {
  const origin = ["https://b.example", "https://a.example"];
  await listed.server({ transports: ["websocket"], cors: { origin, credentials: true, methods: ["GET", "POST"], allowedHeaders: "X-Table", maxAge: 600 } });
  await plain.server({ transports: ["websocket", "polling"], cors: { origin: false }, cookie: false, upgradeTimeout: 10_000, allowEIO3: false });
  await open.server({ cors: { origin: "*" } });
  await open.server({ cors: { origin: true } });
});

test("options that do nothing are named once", () => {
  const index = fileURLToPath(new URL("../dist/callable.js", import.meta.url));
  const text = `const { Server } = require(${JSON.stringify(index)});
process.on("warning", ({ message }) => console.log(message));
for (const _ of [1, 2]) new Server({ gateway: "127.0.0.1:1", key: "k", backend: "b", serveClient: false, perMessageDeflate: true }).close();`;
  const told = execFileSync(process.execPath, ["-e", text], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim().split("\n");
  assert.equal(told.length, 1);
  assert.match(told[0], /`serveClient` \(socketio.serve_client there\), `perMessageDeflate` \(\[compression\] there\)/);
});
