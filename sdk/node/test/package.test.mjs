// The package as it is published, in an empty project: as ES module, as CommonJS, and for the compiler.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { before, test } from "node:test";
import { outside } from "../../pack.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const project = mkdtempSync(join(tmpdir(), "sockeye-package-"));
let packed;
const run = (program, ...args) => execFileSync(program, args, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

before(() => {
  // Without its scripts: the build is there, and another test may be reading it.
  const [{ filename, files }] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", project], { cwd: here(".."), encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }),
  );
  packed = join(project, filename);
  assert.deepEqual(files.map(({ path }) => path).filter((path) => !path.startsWith("dist/")).sort(), ["LICENSE", "README.md", "package.json"]);
  // The messages are code: bundlers leave files behind, and the server API has nothing to do with workers.
  assert.deepEqual(files.filter(({ path }) => path.endsWith(".proto")), []);
  writeFileSync(join(project, "package.json"), '{"name":"empty","private":true}');
  const modules = join(project, "node_modules");
  mkdirSync(join(modules, "@sockeye/server"), { recursive: true });
  execFileSync("tar", ["-xzf", packed, "-C", join(modules, "@sockeye/server"), "--strip-components=1"]);
  // What it depends on, as it is locked here: no test downloads anything.
  const isTool = (path) => /node_modules\/(\.bin|@?esbuild|@?typescript|@arethetypeswrong)$/.test(path);
  cpSync(here("../node_modules"), modules, { recursive: true, dereference: false, filter: (path) => !isTool(path) });
});

const USE = 'const io = new Server({ gateway: "127.0.0.1:1", key: "k", backend: "b" }); io.on("connection", () => {}); io.close().then(() => console.log("closed"));';

test("import", () => {
  writeFileSync(join(project, "a.mjs"), `import { Server, Namespace, Socket } from "@sockeye/server"; if (!Namespace || !Socket) throw new Error("missing"); ${USE}`);
  assert.equal(run(process.execPath, "a.mjs"), "closed\n");
});

test("require, also as a function", () => {
  writeFileSync(join(project, "a.cjs"), `const { Server } = require("@sockeye/server"); if (typeof require("@sockeye/server") !== "function") throw new Error("no function"); ${USE}`);
  assert.equal(run(process.execPath, "a.cjs"), "closed\n");
});

test("two ways to load it gave two `Server` classes, with traces and marks of their own", () => {
  const text = `import * as all from "@sockeye/server"; import { createRequire } from "node:module";
const other = createRequire(import.meta.url)("@sockeye/server");
const { default: _, ...names } = all;
console.log(Object.keys(names).every((name) => all[name] === other[name]), Object.keys(names).length === Object.keys(other).length);`;
  writeFileSync(join(project, "both.mjs"), text);
  assert.equal(run(process.execPath, "both.mjs"), "true true\n");
});

test("the archive had no licence", () => {
  assert.equal(readFileSync(here("../LICENSE"), "utf8"), readFileSync(here("../../../LICENSE"), "utf8"));
});

test("publint and attw find no fault with its exports", () => {
  const tool = (name, ...args) => run(here(`../node_modules/.bin/${name}`), ...args, packed);
  tool("publint", "--strict");
  tool("attw", "--no-emoji");
});

test("links of a README led nowhere on npm and PyPI", () => {
  for (const folder of ["sdk/node", "sdk/client", "sdk/python"]) {
    const page = outside(readFileSync(here(`../../../${folder}/README.md`), "utf8"), folder, "https://example.org/o/r", "v1.2.3");
    for (const [, link] of page.matchAll(/\]\(([^)#]+)[^)]*\)/g)) {
      const [, path] = link.match(/^https:\/\/example.org\/o\/r\/blob\/v1.2.3\/(.*)$/) ?? [];
      if (path) assert.ok(existsSync(here(`../../../${path}`)), `${folder}: ${path}`);
      else assert.match(link, /^https:/, folder);
    }
  }
});

test("types, those of socket.io", () => {
  const text = `import { Server } from "@sockeye/server";
interface In { order(dish: string, done: (when: number) => void): void }
interface Out { order(dish: string): void }
const io = new Server<In, Out>({ gateway: "g:1", key: "k", backend: "b" });
io.on("connection", (socket) => {
  socket.on("order", (dish, done) => { const text: string = dish; done(text.length); });
  socket.to("kitchen").emit("order", "soup");
  // @ts-expect-error: it takes a string
  socket.emit("order", 1);
});
// Namespaces had no types.
io.of(/^\\/dish-/).on("connection", (socket) => {
  socket.on("order", (dish, done) => done(dish.length));
  // @ts-expect-error: nobody knows this event
  socket.on("bill", () => {});
});
io.listen(3000).attach(3001, { pingTimeout: 20_000 });`;
  for (const name of ["b.mts", "b.cts"]) writeFileSync(join(project, name), text);
  const tsc = here("../node_modules/typescript/bin/tsc");
  run(process.execPath, tsc, "--noEmit", "--strict", "--skipLibCheck", "--module", "node16", "--target", "es2022", "b.mts", "b.cts");
});
