// `node examples/start.mjs chat` (or `tables`, `game`) starts an example with all that it needs.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const APPS = ["chat", "tables", "game"];
const { positionals: [app] } = parseArgs({ allowPositionals: true });

if (!APPS.includes(app)) {
  console.error(`cannot start ${app ?? "nothing"}: say one of ${APPS.join(", ")}, as in \`node examples/start.mjs chat\``);
  process.exit(2);
}
for (const folder of ["../sdk/node", "."]) {
  if (existsSync(here(`${folder}/node_modules`))) continue;
  console.log(`installing the packages of ${here(folder)}`);
  execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: here(folder), stdio: "inherit" });
}
// A folder without this file is what an interrupted build left.
if (!existsSync(here("../sdk/node/dist/wrapper.mjs"))) execFileSync("npm", ["run", "build"], { cwd: here("../sdk/node"), stdio: "inherit" });

const { GATEWAYS, Stage } = await import("./stage.mjs");
const stage = await Stage.open(`${app}/index.js`, [3001, 3002].slice(0, GATEWAYS));
const query = app === "tables" ? "/?token=token-ada" : "/";
console.log(`\nOpen ${stage.urls.map((url) => url + query).join(" and ")} in two tabs.`);
const pids = () => stage.workers.map(({ pid }) => pid).join(" and ");
console.log(`The workers are processes ${pids()}: \`kill -9\` one, and nobody notices. Ctrl-C ends all.`);
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stage.close());
stage.failed.catch(async (error) => {
  console.error(error.message);
  process.exitCode = 1;
  await stage.close();
});
