// A gateway that cannot start says why, and holds up nobody.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Gateway } from "./gateway.mjs";

const folder = mkdtempSync(join(tmpdir(), "sockeye-start-"));
const { SOCKEYE_BIN } = process.env;
const { readyMs } = Gateway;

before(() => {
  Gateway.readyMs = 1_000;
});

after(() => {
  Gateway.readyMs = readyMs;
  if (SOCKEYE_BIN === undefined) delete process.env.SOCKEYE_BIN;
  else process.env.SOCKEYE_BIN = SOCKEYE_BIN;
  rmSync(folder, { recursive: true });
});

/** A program in the place of the gateway. */
function stand(script, mode = 0o755) {
  const file = join(folder, "sockeye");
  rmSync(file, { force: true });
  writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode });
  process.env.SOCKEYE_BIN = file;
}

test("one that ends at once is told with its last words", async () => {
  stand("echo no such key >&2; exit 2");
  await assert.rejects(Gateway.start(), /ended with 2:\nno such key/);
  stand("kill -9 $$");
  await assert.rejects(Gateway.start(), /ended with SIGKILL/);
});

test("one that cannot be run is told", async () => {
  stand("exit 0", 0o644);
  await assert.rejects(Gateway.start(), /cannot run the gateway .*EACCES/);
});

test("one that never serves is ended, and the test does not wait for it", async () => {
  const pid = join(folder, "pid");
  stand(`echo $$ > ${pid}; echo I think >&2; exec sleep 600`);
  await assert.rejects(Gateway.start(), /did not serve http.* in 1000 ms:\nI think/);
  const number = Number(readFileSync(pid, "utf8"));
  assert.throws(() => process.kill(number, 0), { code: "ESRCH" });
});
