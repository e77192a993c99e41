// A process of tests that are over, and that does not end, says what it waits for, and ends.
import { afterEach, beforeEach } from "node:test";

/** Between two tests. */
const PATIENCE_MS = 20_000;
let late;

function named(handle) {
  const { localPort, remotePort, spawnfile, listening, fd } = handle;
  return `${handle.constructor?.name} ${JSON.stringify({ localPort, remotePort, spawnfile, listening, fd })}`;
}

function giveUp() {
  console.error(`no test goes on in ${process.argv[1]}, and it waits for ${process.getActiveResourcesInfo().join(", ")}`);
  for (const handle of process._getActiveHandles()) console.error(`  ${named(handle)}`);
  process.exit(1);
}

beforeEach(() => clearTimeout(late));
afterEach(() => {
  clearTimeout(late);
  late = setTimeout(giveUp, PATIENCE_MS).unref();
});
