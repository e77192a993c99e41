// What `npm pack` makes, installed as its users do: as an ES module, by `require`, with types.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";

let archive;
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
  archive = join(folder, filename);
  const beside = files.map(({ path }) => path).filter((path) => !path.startsWith("dist/"));
  assert.deepEqual(beside.sort(), ["LICENSE", "README.md", "package.json"]);
  writeFileSync(join(folder, "package.json"), `{"private":true}`);
  const peers = ["--legacy-peer-deps", "--offline", "--no-audit", "--no-fund"];
  run("npm", "install", ...peers, archive);
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

test("two ways to load it gave two classes", () => {
  const text = `import * as all from "@sockeye/client"; import { createRequire } from "node:module";
    const { Client, DeliveryError } = createRequire(import.meta.url)("@sockeye/client");
    console.log(all.Client === Client, all.DeliveryError === DeliveryError);`;
  writeFileSync(join(folder, "both.mjs"), text);
  assert.equal(run("node", "both.mjs"), "true true\n");
});

test("it could be built beside `web` only", () => {
  const copy = mkdtempSync(join(tmpdir(), "sockeye-build-"));
  for (const name of ["src", "package.json", "tsconfig.json", "build.mjs"]) {
    cpSync(here(`../${name}`), join(copy, name), { recursive: true });
  }
  symlinkSync(here("../node_modules"), join(copy, "node_modules"));
  execFileSync(process.execPath, ["build.mjs"], { cwd: copy });
  assert.deepEqual(readdirSync(join(copy, "dist")), readdirSync(here("../dist")));
});

test("the archive had no licence", () => {
  const texts = ["../LICENSE", "../../../LICENSE"].map((path) => readFileSync(here(path), "utf8"));
  assert.equal(texts[0], texts[1]);
});

test("publint and attw find no fault with its exports", () => {
  run(here("../node_modules/.bin/publint"), "--strict", archive);
  run(here("../node_modules/.bin/attw"), "--no-emoji", archive);
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
