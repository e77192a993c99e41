// The library on Bun and Deno: the same program as on Node, behind the real gateway, with stock clients.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { stage } from "./stage.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
/** The script of such a package moves its program to `command`. Where npm runs no scripts, the program stays in a package of `scope`. */
function program(scope, pattern, command) {
  const folder = here(`../node_modules/${scope}`);
  const files = [here(`../node_modules/${command}`), ...readdirSync(folder).map((name) => join(folder, name, pattern))];
  const found = files.filter((file) => existsSync(file));
  assert.ok(found.length > 0, `npm ci in sdk/node installs ${scope}`);
  // Of several builds for this machine, the one that runs.
  return found.find((file) => spawnSync(file, ["--version"]).status === 0);
}
const RUNTIMES = { node: () => [process.execPath], bun: () => [program("@oven", "bin/bun", "bun/bin/bun.exe")], deno: () => [program("@deno", "deno", "deno/deno"), "run", "-A", "--quiet"] };

let gateway;
before(async () => (gateway = await stage()));
after(() => gateway.close());

async function start([program, ...args]) {
  const child = spawn(program, [...args, here("runtime.mjs"), gateway.workers, gateway.key], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (text) => (said += text));
  for await (const line of createInterface({ input: child.stdout })) if (line === "ready") return child;
  assert.fail(`it ended: ${said}`);
}

for (const [name, program] of Object.entries(RUNTIMES)) {
  test(`a worker on ${name} is a worker`, { timeout: 60_000 }, async () => {
    const worker = await start(program());
    const [one, other] = [0, 1].map(() => gateway.open("/", { transports: ["websocket"] }));
    const bytes = Buffer.from([0, 255, 1]);
    assert.deepEqual(await one.emitWithAck("echo", { a: [null, "🦀é"] }), { a: [null, "🦀é"] });
    assert.deepEqual(Buffer.from((await one.emitWithAck("echo", { bytes })).bytes), bytes);
    assert.equal((await one.emitWithAck("echo", "€".repeat(50_000))).length, 50_000);
    assert.deepEqual(await new Promise((resolve) => one.emit("late", 7, (...answer) => resolve(answer))), [7, false]);
    await Promise.all([one, other].map((client) => client.emitWithAck("join", "r")));
    const told = [one, other].map((client) => new Promise((resolve) => client.on("told", (...args) => resolve(args))));
    one.emit("tell", "r", 1, bytes);
    for (const [number, value] of await Promise.all(told)) assert.deepEqual([number, Buffer.from(value)], [1, bytes]);
    assert.deepEqual(await one.emitWithAck("who"), [{ room: "r" }, { room: "r" }]);
    for (const client of [one, other]) client.on("asked", (n, done) => done(n + 1));
    assert.deepEqual(await one.emitWithAck("ask"), [2, 2]);
    const refused = gateway.open("/", { transports: ["websocket"], auth: { bad: true } });
    const [error] = await new Promise((resolve) => refused.on("connect_error", (...args) => resolve(args)));
    assert.equal(error.message, "not you");
    const gone = new Promise((resolve) => other.on("disconnect", resolve));
    other.emit("kick");
    assert.equal(await gone, "io server disconnect");
    // What was under way at its end comes to the next one.
    const waits = one.emitWithAck("late", 8);
    worker.kill("SIGKILL");
    const next = await start(program());
    assert.equal(await waits, 8);
    next.kill("SIGTERM");
    assert.deepEqual(await once(next, "exit"), [0, null]);
    one.disconnect();
    refused.disconnect();
  });
}
