// Ports for servers of tests. Each process owns blocks of ports. It listens at the first port of each block for as long as it lives, so
// that no other process takes a port from there: crates/servers/src/ports.rs says more. `node ports.mjs COUNT` prints so many, and keeps
// their blocks until its input ends.

import { once } from "node:events";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";

const FIRST = 12_000;
const BLOCK = 20;
const BLOCKS = 1_000;
/** Those of the newest block that nobody has yet. */
const rest = [];

/** A listener, or nothing where somebody listens. No process goes on for it alone. */
async function listen(port) {
  const listener = createServer((conn) => conn.destroy()).unref().listen(port, "127.0.0.1");
  return await once(listener, "listening").then(() => listener, () => undefined);
}

async function claim() {
  const begin = Number(process.env.PORTS_BEGIN ?? process.pid) * 7;
  for (let n = 0; n < BLOCKS; n += 1) {
    const first = FIRST + ((begin + n) % BLOCKS) * BLOCK;
    if (await listen(first)) return rest.push(...Array.from({ length: BLOCK - 1 }, (_, at) => first + 1 + at));
  }
  throw new Error("no block of ports is free");
}

export async function freePort() {
  for (;;) {
    const port = rest.shift();
    const probe = port && (await listen(port));
    if (probe) return await new Promise((done) => probe.close(() => done(port)));
    if (rest.length === 0) await claim();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (let n = Number(process.argv[2]); n > 0; n -= 1) console.log(await freePort());
  process.stdin.resume();
}
