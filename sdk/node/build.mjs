// Makes `dist`: CommonJS for everybody, and a wrapper of it for `import`. Two builds would be two `Server` classes in one process.
import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const require = createRequire(import.meta.url);
// A build that is interrupted leaves no half of a library: the whole is renamed.
const made = here(`.dist-${process.pid}`);

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

try {
  writeFileSync(here("src/schema.json"), JSON.stringify(schema()));
  mkdirSync(made);
  execFileSync(process.execPath, [here("node_modules/typescript/bin/tsc"), "-p", here("tsconfig.json"), "--outDir", made], { stdio: "inherit" });
  writeFileSync(`${made}/callable.js`, CALLABLE);
  const names = Object.keys(require(`${made}/index.js`)).join(", ");
  writeFileSync(`${made}/wrapper.mjs`, `import all from "./callable.js";\n\nexport const { ${names} } = all;\n`);
  writeFileSync(`${made}/wrapper.d.mts`, 'export * from "./index.js";\n');
  rmSync(here("dist"), { recursive: true, force: true });
  renameSync(made, here("dist"));
} finally {
  rmSync(made, { recursive: true, force: true });
}
