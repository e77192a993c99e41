// Makes `dist`: CommonJS for everybody, and a wrapper of it for `import`. Two builds would be two `Server` classes in one process.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const require = createRequire(import.meta.url);
// A build that is interrupted leaves no half of a library: the whole is renamed.
const made = here(`.dist-${process.pid}`);

/** Says of what `dist` was made. */
const mark = here(".made");
const GENERATED = "schema.json";

/** Of all that a build reads. */
function digest() {
  const files = (folder) => readdirSync(here(folder), { recursive: true }).map((name) => `${folder}/${name}`);
  const read = [...files("src"), ...files("../../proto"), "build.mjs", "package.json", "package-lock.json", "tsconfig.json"];
  const sum = createHash("sha256");
  for (const name of read.filter((name) => /\.\w+$/.test(name) && !name.endsWith(GENERATED)).sort()) {
    if (existsSync(here(name))) sum.update(`${name}\n`).update(readFileSync(here(name)));
  }
  return sum.digest("hex");
}

/** The protocol's messages as a module: bundlers leave files of other kinds behind. */
function schema() {
  const root = new protobuf.Root();
  root.resolvePath = (_, file) => here(`../../proto/${file}`);
  return root.loadSync("sockeye/worker/v1/worker.proto", { keepCase: true }).toJSON();
}

/** `require("@sockeye/server")(httpServer, options)` works as it does with socket.io. */
const CALLABLE = `"use strict";
const all = require("./index.js");
module.exports = Object.assign((server, options) => new all.Server(server, options), all);
`;

function build() {
  writeFileSync(here(`src/${GENERATED}`), JSON.stringify(schema()));
  mkdirSync(made);
  execFileSync(process.execPath, [here("node_modules/typescript/bin/tsc"), "-p", here("tsconfig.json"), "--outDir", made], { stdio: "inherit" });
  writeFileSync(`${made}/callable.js`, CALLABLE);
  const names = Object.keys(require(`${made}/index.js`)).join(", ");
  writeFileSync(`${made}/wrapper.mjs`, `import all from "./callable.js";\n\nexport const { ${names} } = all;\n`);
  writeFileSync(`${made}/wrapper.d.mts`, 'export * from "./index.js";\n');
  rmSync(mark, { force: true });
  rmSync(here("dist"), { recursive: true, force: true });
  renameSync(made, here("dist"));
}

// Programs that run have the library open: whoever finds it fresh leaves it alone.
const wanted = digest();
const isFresh = existsSync(here("dist/wrapper.mjs")) && existsSync(mark) && readFileSync(mark, "utf8") === wanted;
try {
  if (!isFresh) {
    build();
    writeFileSync(mark, wanted);
  }
} finally {
  rmSync(made, { recursive: true, force: true });
}
