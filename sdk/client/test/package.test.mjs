// What `npm pack` makes, installed as its users do: as an ES module, by `require`, with types.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "sockeye-package-"));
const run = (program, ...args) => execFileSync(program, args, { cwd: folder, encoding: "utf8" });

before(() => {
  const packed = execFileSync(
    "npm",
    ["pack", "--json", "--ignore-scripts", "--pack-destination", folder],
    { cwd: here(".."), encoding: "utf8" },
  );
  const [{ filename, files }] = Object.values(JSON.parse(packed));
  assert.ok(
    !files.some(({ path }) => path.startsWith("src/") || path.startsWith("test/")),
    "only what users need",
  );
  writeFileSync(join(folder, "package.json"), `{"private":true}`);
  const peers = ["--legacy-peer-deps", "--offline", "--no-audit", "--no-fund"];
  run("npm", "install", ...peers, join(folder, filename));
  symlinkSync(
    here("../node_modules/socket.io-client"),
    join(folder, "node_modules/socket.io-client"),
  );
});

test("is an ES module and a CommonJS module", () => {
  writeFileSync(
    join(folder, "a.mjs"),
    `import { Client, DeliveryError } from "@sockeye/client"; console.log(typeof Client, typeof DeliveryError);`,
  );
  writeFileSync(
    join(folder, "b.cjs"),
    `const { Client, DeliveryError } = require("@sockeye/client"); console.log(typeof Client, typeof DeliveryError);`,
  );
  assert.equal(run("node", "a.mjs"), "function function\n");
  assert.equal(run("node", "b.cjs"), "function function\n");
});

test("types know events, arguments and answers", () => {
  const program = `
    interface Heard { news: (text: string) => void }
    interface Said { order: (dish: string, done: (answer: { id: number }) => void) => void; ping: () => void }
    const client = new Client<Heard, Said>(io, { url: "http://localhost" });
    client.on("news", (text) => text.toUpperCase());
    client.send("order", "soup").answer().then(({ id }) => id.toFixed());
    client.emit("ping");
    // @ts-expect-error: no such event
    client.on("olds", () => {});
    // @ts-expect-error: not a dish
    client.send("order", 1);
    // @ts-expect-error: no such answer
    client.ask("order", "soup").then(({ name }) => name);
    new Client(io).send("anything", 1, "two");
  `;
  writeFileSync(
    join(folder, "a.mts"),
    `import { io } from "socket.io-client"; import { Client } from "@sockeye/client";${program}`,
  );
  writeFileSync(
    join(folder, "b.cts"),
    `import client_ = require("@sockeye/client"); import io_ = require("socket.io-client"); const { Client } = client_; const { io } = io_;${program}`,
  );
  const flags = [
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "--module",
    "nodenext",
    "--lib",
    "es2023,dom",
  ];
  const { status, stdout } = spawnSync(
    here("../node_modules/.bin/tsc"),
    [...flags, "a.mts", "b.cts"],
    { cwd: folder, encoding: "utf8" },
  );
  assert.equal(status, 0, stdout);
});
