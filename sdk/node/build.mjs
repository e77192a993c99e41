// Makes `dist`: the same sources as ES modules and as CommonJS, and the protocol's messages.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

// Each kind of modules has a way of its own to say where it is.
const HOME = {
  esm: 'import { fileURLToPath } from "node:url";\nexport const home = fileURLToPath(new URL(".", import.meta.url));\n',
  cjs: '"use strict";\nexports.home = __dirname;\n',
};

rmSync(here("dist"), { recursive: true, force: true });
for (const [folder, type] of [["esm", "module"], ["cjs", "commonjs"]]) {
  mkdirSync(here(`dist/${folder}`), { recursive: true });
  // The compiler takes the kind of module from the package.json nearest to the sources.
  writeFileSync(here("src/package.json"), JSON.stringify({ type }));
  execFileSync(process.execPath, [tsc, "-p", here("tsconfig.json"), "--outDir", here(`dist/${folder}`)], { stdio: "inherit" });
  writeFileSync(here(`dist/${folder}/home.js`), HOME[folder]);
  writeFileSync(here(`dist/${folder}/package.json`), JSON.stringify({ type }));
}
rmSync(here("src/package.json"));
// `require("@sockeye/server")(httpServer, options)` works as it does with socket.io.
writeFileSync(
  here("dist/cjs/callable.js"),
  '"use strict";\nconst all = require("./index.js");\nmodule.exports = Object.assign((server, options) => new all.Server(server, options), all);\n',
);
cpSync(here("../../proto"), here("dist/proto"), { recursive: true });
