// Makes `dist`: one ES module, one CommonJS module, and their types.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const dist = here("./dist");

rmSync(dist, { recursive: true, force: true });
execFileSync(here("./node_modules/.bin/tsc"), ["--project", here("./tsconfig.json")], {
  stdio: "inherit",
});

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
