// Makes `dist`: one ES module for browsers, one CommonJS module, their types, and the module that Node imports: a wrapper of the
// second, so that one process has one of each class.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
// A build that is interrupted leaves no half of a library: the whole is renamed.
const dist = here(`./.dist-${process.pid}`);
process.on("exit", () => rmSync(dist, { recursive: true, force: true }));

const flags = ["--project", here("./tsconfig.json"), "--outDir", dist];
execFileSync(here("./node_modules/.bin/tsc"), flags, { stdio: "inherit" });

// Node wants the types of a CommonJS module in files of that kind.
for (const name of readdirSync(dist)) {
  const text = readFileSync(`${dist}/${name}`, "utf8").replaceAll(
    /(["']\.\/\w+)\.(?:ts|js)(["'])/g,
    "$1.js$2",
  );
  writeFileSync(`${dist}/${name}`, text);
  writeFileSync(
    `${dist}/${name.replace(".d.ts", ".d.cts")}`,
    text.replaceAll(/(["']\.\/\w+)\.js(["'])/g, "$1.cjs$2"),
  );
}

const bundle = await rolldown({ input: here("./src/index.ts"), cwd: here(".") });
await bundle.write({ format: "esm", file: `${dist}/index.js` });
await bundle.write({ format: "cjs", file: `${dist}/index.cjs` });
await bundle.close();

const names = Object.keys(createRequire(import.meta.url)(`${dist}/index.cjs`)).join(", ");
const wrapper = `import all from "./index.cjs";\n\nexport const { ${names} } = all;\n`;
writeFileSync(`${dist}/wrapper.js`, wrapper);
rmSync(here("./dist"), { recursive: true, force: true });
renameSync(dist, here("./dist"));
