// The package as it is published, in an empty project: as ES module, as CommonJS, and for the compiler.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { before, test } from "node:test";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const project = mkdtempSync(join(tmpdir(), "sockeye-package-"));
const run = (program, ...args) => execFileSync(program, args, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

before(() => {
  // Without its scripts: the build is there, and another test may be reading it.
  const [{ filename, files }] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", project], { cwd: here(".."), encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }),
  );
  assert.deepEqual(files.map(({ path }) => path).filter((path) => !/^(dist\/|package\.json$|README\.md$)/.test(path)), []);
  writeFileSync(join(project, "package.json"), '{"name":"empty","private":true}');
  const modules = join(project, "node_modules");
  mkdirSync(join(modules, "@sockeye/server"), { recursive: true });
  execFileSync("tar", ["-xzf", join(project, filename), "-C", join(modules, "@sockeye/server"), "--strip-components=1"]);
  // What it depends on, as it is locked here: no test downloads anything.
  cpSync(here("../node_modules"), modules, { recursive: true, dereference: false, filter: (path) => !path.endsWith(".bin") });
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
