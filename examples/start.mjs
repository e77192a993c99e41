// `node examples/start.mjs chat` (or another one of `APPS`) starts an example with all that it needs.
import { execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
/** Their programs, and what to open. */
const APPS = {
  chat: {},
  tables: { query: "?token=token-ada" },
  game: {},
  cursors: {},
  recovery: {},
  dashboard: {},
  notifications: { program: "app.py" },
  "postgres-chat": {},
};
const { positionals: [app] } = parseArgs({ allowPositionals: true });

if (!Object.hasOwn(APPS, app ?? "")) {
  console.error(`cannot start ${app ?? "nothing"}: say one of ${Object.keys(APPS).join(", ")}, as in \`node examples/start.mjs chat\``);
  process.exit(2);
}
/** npm writes its file last: what is older than the lock file is of another time. */
function isInstalled(folder) {
  const [installed, lock] = ["node_modules/.package-lock.json", "package-lock.json"].map((file) => statSync(here(`${folder}/${file}`), { throwIfNoEntry: false })?.mtimeMs);
  return installed >= lock;
}

for (const folder of ["../sdk/node", "."]) {
  if (isInstalled(folder)) continue;
  console.log(`installing the packages of ${here(folder)}`);
  execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: here(folder), stdio: "inherit" });
}
// A folder without this file is what an interrupted build left.
if (!existsSync(here("../sdk/node/dist/wrapper.mjs"))) execFileSync("npm", ["run", "build"], { cwd: here("../sdk/node"), stdio: "inherit" });

const { GATEWAYS, Stage } = await import("./stage.mjs");
const { program = "index.js", query = "" } = APPS[app];
const stage = await Stage.open(`${app}/${program}`, [3001, 3002].slice(0, GATEWAYS)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
console.log(`\nOpen ${stage.urls.map((url) => `${url}/${query}`).join(" and ")} in two tabs.`);
const pids = (processes) => processes.map(({ pid }) => pid).join(" and ");
console.log(`Processes of the program: ${pids(stage.workers)}, of the gateways: ${pids(stage.gateways)}. \`kill -9\` one, and see. Ctrl-C ends all.`);
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stage.close());
stage.failed.catch(async (error) => {
  console.error(error.message);
  process.exitCode = 1;
  await stage.close();
});
