// Large events and uploads against the real gateway. SOCKEYE_BIN names the binary.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { io } from "socket.io-client";
import { Client, UploadError, upload } from "@sockeye/client";
import { Gateway } from "../../../web/tests/gateway.mjs";

const SECRET = "a-secret-of-more-than-thirty-two-bytes";
const ends = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function gatewayWith(large = "") {
  const folder = mkdtempSync(join(tmpdir(), "sockeye-large-"));
  const file = join(folder, "sockeye.toml");
  const toml = `profile = "socket.io"
[auth]
secret = "${SECRET}"
[large]
threshold = "8KiB"
folder = "bodies"
uploads = true
${large}
[namespaces."/"]
large = "store"
client_joins = true
default.action = "rooms"
`;
  writeFileSync(file, toml);
  const gateway = await Gateway.start("--config", file);
  ends.push(() => gateway.kill());
  return { gateway, bodies: join(folder, "bodies") };
}

function tokenOf(user) {
  const args = ["token", "--secret", SECRET, "--uid", user];
  return execFileSync(process.env.SOCKEYE_BIN, args, { encoding: "utf8" }).trim();
}

async function memberOf(gateway, user, options = {}) {
  const token = tokenOf(user);
  const socket = { transports: ["websocket"], auth: { token } };
  const client = new Client(io, { url: gateway.url, socket, ...options });
  ends.push(() => client.close());
  const online = new Promise((resolve) => client.watch("online", resolve));
  client.open();
  await online;
  await client.ask("join", "den");
  return { client, token };
}

/** Everything that is heard of these events, and a promise of so many. */
function hears(client, events, count) {
  const heard = [];
  const all = new Promise((resolve) => {
    for (const event of events) {
      client.on(event, (...args) => {
        if (heard.push([event, ...args]) === count) resolve(heard);
      });
    }
  });
  return { heard, all };
}

test("large events arrive as they were, in order with the others", async () => {
  const { gateway } = await gatewayWith();
  const [ada, grace] = [await memberOf(gateway, "ada"), await memberOf(gateway, "grace")];
  const { all } = hears(grace.client, ["said", "image"], 31);
  const expected = [];
  for (let n = 0; n < 30; n += 1) {
    const args = [n, n % 3 === 1 ? "ü".repeat(9000 + n) : "", { nested: [null, n] }];
    expected.push(["said", ...args]);
    ada.client.send("said", ...args);
  }
  const pixels = Buffer.from(Array.from({ length: 20_000 }, (_, n) => n % 256));
  ada.client.send("image", { pixels, of: ["cat"] });
  expected.push(["image", { pixels, of: ["cat"] }]);
  assert.deepEqual(await all, expected);
});

test("a body that cannot be fetched is told, and holds up nothing for ever", async () => {
  const { gateway, bodies } = await gatewayWith();
  const [ada, grace] = [await memberOf(gateway, "ada"), await memberOf(gateway, "grace")];
  const small = await memberOf(gateway, "small", { large: { maxBytes: 10_000 } });
  const { all } = hears(small.client, ["said"], 1);
  const lost = new Promise((resolve) => {
    grace.client.watch("lost", (message, error) => resolve([message.event, error.message]));
  });
  const end = hears(grace.client, ["large_message", "end"], 2);
  // The store forgets everything as soon as a reference is there.
  const raw = io(gateway.url, {
    transports: ["websocket"],
    auth: { token: tokenOf("witness") },
    forceNew: true,
  });
  ends.push(() => raw.close());
  await raw.emitWithAck("join", "den");
  const stored = new Promise((resolve) => raw.once("large_message", resolve));
  const fetched = globalThis.fetch;
  globalThis.fetch = async (...args) => {
    await stored;
    rmSync(bodies, { recursive: true, force: true });
    return fetched(...args);
  };
  ends.push(() => {
    globalThis.fetch = fetched;
  });
  ada.client.send("said", "x".repeat(20_000));
  ada.client.send("end");
  assert.deepEqual(await lost, ["said", "the gateway answered 404"]);
  const heard = await end.all;
  assert.deepEqual([heard[0][0], heard[0][1].event, heard[1]], ["large_message", "said", ["end"]]);
  // One that wants no such bodies gets the reference.
  const [[event, message]] = await all;
  assert.deepEqual([event, message.type], ["said", "large_message"]);
});

test("an upload is announced to the room, and refused with a reason", async () => {
  const { gateway } = await gatewayWith('upload_max = "64KiB"');
  const [ada, grace] = [await memberOf(gateway, "ada"), await memberOf(gateway, "grace")];
  const { all } = hears(grace.client, ["file"], 1);
  const body = new Blob([new Uint8Array(50_000).fill(7)], { type: "image/png" });
  const options = { token: ada.token, event: "file", room: "den", name: "cat.png" };
  const reference = await upload(ada.client, body, options);
  const [[, heard]] = await all;
  assert.deepEqual(heard, reference);
  assert.deepEqual([heard.content_type, heard.name, heard.size], ["image/png", "cat.png", 50_000]);
  const fetched = await fetch(new URL(heard.url, gateway.url));
  assert.equal((await fetched.arrayBuffer()).byteLength, 50_000);
  const refused = async (body, more) => {
    const error = await upload(ada.client, body, { ...options, ...more }).catch((error) => error);
    assert.ok(error instanceof UploadError, String(error));
    return [error.status, error.code];
  };
  assert.deepEqual(await refused(new Uint8Array(70_000)), [413, "TOO_LARGE"]);
  assert.deepEqual(await refused("x", { token: "none" }), [401, "INVALID_TOKEN"]);
  assert.deepEqual(await refused("x", { room: "attic" }), [403, "NOT_IN_ROOM"]);
});

test("a proxy that answers by itself is an error of the upload", async () => {
  const proxy = createServer((request, response) => {
    request.resume().on("end", () => response.writeHead(502).end("<html>Bad Gateway</html>"));
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  ends.push(() => proxy.close());
  const url = `http://127.0.0.1:${proxy.address().port}`;
  const options = { token: "t", event: "file", room: "den" };
  const error = await upload({ url, id: undefined }, "x", options).catch((error) => error);
  assert.ok(error instanceof UploadError, String(error));
  assert.deepEqual([error.status, error.code], [502, "UNKNOWN"]);
});

test("a body is fetched from no other origin", async () => {
  const { gateway } = await gatewayWith('public_url = "http://127.0.0.1:1"');
  const [ada, grace] = [await memberOf(gateway, "ada"), await memberOf(gateway, "grace")];
  const lost = new Promise((resolve) => grace.client.watch("lost", (_, error) => resolve(error)));
  ada.client.send("said", "x".repeat(20_000));
  assert.match((await lost).message, /not fetched from http:\/\/127\.0\.0\.1:1/);
});

test("events wait for a body, but not any number of them", async () => {
  const { gateway } = await gatewayWith();
  const grace = await memberOf(gateway, "grace");
  const fetched = globalThis.fetch;
  const asked = new Promise((resolve) => {
    globalThis.fetch = () => new Promise(() => resolve());
  });
  ends.push(() => {
    globalThis.fetch = fetched;
  });
  const lost = new Promise((resolve) => grace.client.watch("lost", (_, error) => resolve(error)));
  const { heard, all } = hears(grace.client, ["large_message", "small"], 10_001);
  const auth = { token: tokenOf("ada") };
  const ada = io(gateway.url, { transports: ["websocket"], auth, forceNew: true });
  ends.push(() => ada.close());
  await ada.emitWithAck("join", "den");
  ada.emit("said", "x".repeat(20_000));
  await asked;
  // In steps that no outbox finds too much.
  for (let n = 1; n <= 9_999; n++) {
    ada.emit("small", n);
    if (n % 500 === 0) await ada.emitWithAck("join", "den");
  }
  await ada.emitWithAck("join", "den");
  assert.equal(heard.length, 0);
  ada.emit("small", 10_000);
  assert.match((await lost).message, /10000 events wait for it/);
  const [[first], ...small] = await all;
  assert.equal(first, "large_message");
  assert.deepEqual(
    small,
    Array.from({ length: 10_000 }, (_, n) => ["small", n + 1]),
  );
});
