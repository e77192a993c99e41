// Socket.IO's own tests of its server, against `@sockeye/server` and the gateway. Fetches nothing:
//   node conformance/socket.io/run.mjs CHECKOUT SOCKEYE [FILE …]
// CHECKOUT: a clone of github.com/socketio/socket.io with its npm packages. SOCKEYE: the binary. FILE: such as `namespaces`.
// docs/socket-io-tests.md lists the tests that fail; the code of the exit is 1 if others do, or if one of the list passes.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const FILES = ["server-attachment", "handshake", "close", "namespaces", "socket", "messaging-many", "middleware", "socket-middleware", "v2-compatibility", "socket-timeout", "utility-methods", "connection-state-recovery"];
const TOOLS = ["mocha", "tsx", "expect.js", "supertest", "superagent", "socket.io-client-v2"];
/** Of one test; Socket.IO's own is 10 s. A client whose gateway is killed while it upgrades notices that after 35 s, by the ping that does not come. */
const TIMEOUT_MS = 60_000;
/** How often a test is played until it passes. */
const TIMES = 3;

/** `FILE: TITLE` of each row of the page's second table. */
function known() {
  const rows = readFileSync(here("../../docs/socket-io-tests.md"), "utf8").matchAll(/^\| ([\w-]+) \| (.+?) \| (?:differs|not applicable) \|/gm);
  return new Set([...rows].map(([, file, title]) => `${file}: ${title.replaceAll("`", "")}`));
}

/** A folder that looks like `packages/socket.io`: its tests as they are, and the library in the place of Socket.IO. */
function workshop(checkout) {
  const folder = mkdtempSync(join(tmpdir(), "sockeye-socketio-tests-"));
  cpSync(join(checkout, "packages/socket.io/test"), join(folder, "test"), { recursive: true });
  const modules = join(folder, "node_modules");
  mkdirSync(modules);
  // The stock packages of the library's own tests come first.
  for (const source of [here("../../sdk/node/node_modules"), join(checkout, "node_modules")]) {
    for (const name of readdirSync(source)) if (!existsSync(join(modules, name))) symlinkSync(join(source, name), join(modules, name));
  }
  const { version } = JSON.parse(readFileSync(join(modules, "socket.io-client/package.json"), "utf8"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ version, main: "server.cjs" }));
  writeFileSync(join(folder, "server.cjs"), `module.exports = require(${JSON.stringify(here("./server.cjs"))});\n`);
  return folder;
}

/** `title`: only tests of this name. */
function play(file, folder, sockeye, title) {
  const report = join(folder, `${file}.json`);
  const only = title === undefined ? [] : ["--grep", `${title.replace(/[^\w ]/g, "\\$&")}$`];
  const args = [join(folder, "node_modules/mocha/bin/mocha.js"), "--import=tsx", "--exit", "--timeout", TIMEOUT_MS, "--reporter", "json", "--reporter-option", `output=${report}`, ...only];
  const env = { ...process.env, SOCKEYE_BIN: sockeye, NODE_NO_WARNINGS: "1" };
  const { stderr } = spawnSync(process.execPath, [...args.map(String), `test/${file}.ts`], { cwd: folder, env, encoding: "utf8", stdio: ["ignore", "ignore", "pipe"] });
  if (!existsSync(report)) throw new Error(`cannot run ${file}: ${stderr}`);
  return JSON.parse(readFileSync(report, "utf8"));
}

/** Tests that look at clients in the order in which these were made fail now and then where the processor has much to do. */
function playAgain(file, folder, sockeye, { title, err }) {
  for (let time = 2; time <= TIMES; time++) {
    if (play(file, folder, sockeye, title).stats.failures > 0) continue;
    console.error(`passed at time ${time}: ${file}: ${title}`);
    return true;
  }
  console.error(`not in the list: ${file}: ${title}\n  ${String(err.message).split("\n")[0]}`);
  return false;
}

function main([checkout, sockeye, ...files]) {
  if (!checkout || !sockeye) {
    console.error("cannot run: say `node conformance/socket.io/run.mjs CHECKOUT SOCKEYE [FILE …]`");
    process.exit(2);
  }
  const missing = ["packages/socket.io/test", ...TOOLS.map((name) => `node_modules/${name}`)].filter((path) => !existsSync(join(checkout, path)));
  if (missing.length > 0) {
    console.error(`cannot run: ${checkout} has no ${missing.join(", ")}; clone github.com/socketio/socket.io there, and run \`npm ci\` in it`);
    process.exit(2);
  }
  execFileSync("npm", ["run", "--silent", "build"], { cwd: here("../../sdk/node"), stdio: "inherit" });
  const [folder, listed, failed] = [workshop(resolve(checkout)), known(), new Set()];
  const passed = new Set();
  console.log("| file | tests | passed |\n|---|---|---|");
  for (const file of files.length > 0 ? files : FILES) {
    const { stats, failures, passes } = play(file, folder, resolve(sockeye));
    const name = ({ title }) => `${file}: ${title.replaceAll("`", "")}`;
    const late = failures.filter((failure) => !listed.has(name(failure)) && playAgain(file, folder, resolve(sockeye), failure));
    console.log(`| ${file} | ${stats.tests} | ${stats.passes + late.length} |`);
    for (const test of passes) passed.add(name(test));
    for (const failure of failures) if (!late.includes(failure)) failed.add(name(failure));
  }
  rmSync(folder, { recursive: true, force: true });
  const other = [...listed].filter((name) => passed.has(name) && !failed.has(name));
  for (const name of other) console.error(`in the list, and it passes: ${name}`);
  process.exitCode = other.length > 0 || [...failed].some((name) => !listed.has(name)) ? 1 : 0;
}

main(process.argv.slice(2));
