// A worker as one file, made by esbuild, in a folder where nothing else is: it attaches and answers.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { stage } from "./stage.mjs";

const WORKER = `import { Server, eventInfo } from "@sockeye/server";
const io = new Server();
io.on("connection", (socket) => socket.on("order", (...args) => args.at(-1)(args[0], eventInfo(args).redelivered)));`;
/** What `socket.io` needs as well, to be bundled as an ES module. */
const BANNER = 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
const folder = mkdtempSync(join(tmpdir(), "sockeye-bundle-"));
const resolveDir = fileURLToPath(new URL("..", import.meta.url));

let gateway;
before(async () => (gateway = await stage()));
after(() => gateway.close());

for (const [format, ending, banner] of [["esm", "mjs", BANNER], ["cjs", "cjs", ""]]) {
  test(`a bundle did not find worker.proto: ${format}`, async () => {
    const outfile = join(folder, `worker.${ending}`);
    await build({ stdin: { contents: WORKER, resolveDir }, bundle: true, platform: "node", format, outfile, banner: { js: banner }, logLevel: "error" });
    const env = { ...process.env, SOCKEYE_GATEWAY: gateway.workers, SOCKEYE_KEY: gateway.key, SOCKEYE_BACKEND: "kitchen" };
    const worker = spawn(process.execPath, [outfile], { cwd: folder, env, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    worker.stderr.on("data", (text) => (said += text));
    const died = once(worker, "exit").then(() => assert.fail(`the bundle ended: ${said}`));
    const client = gateway.open();
    try {
      const answered = new Promise((resolve) => client.emit("order", "soup", (...answer) => resolve(answer)));
      assert.deepEqual(await Promise.race([answered, died]), ["soup", false]);
    } finally {
      client.close();
      died.catch(() => {});
      worker.kill();
    }
  });
}
