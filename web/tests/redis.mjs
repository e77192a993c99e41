// A Redis of a test's own, in its folder.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../conformance/ports.mjs";

async function answers(port) {
  const socket = connect(port, "127.0.0.1");
  const open = await Promise.race([
    once(socket, "connect").then(() => true),
    once(socket, "error").then(() => false),
  ]).catch(() => false);
  socket.destroy();
  return open;
}

/** Its process, and how others name it. */
export async function startRedis(folder) {
  const port = await freePort();
  const args = ["--port", String(port), "--save", ""];
  const redis = spawn("redis-server", args, { cwd: folder, stdio: "ignore" });
  let failure;
  redis.on("error", (error) => (failure = error));
  while (!(await answers(port))) {
    if (failure) throw new Error(`cannot run redis-server: ${failure.message}`);
    const ended = redis.signalCode ?? redis.exitCode;
    if (ended !== null) throw new Error(`redis-server ended with ${ended} at port ${port}`);
    await sleep(10);
  }
  return { redis, url: `redis://127.0.0.1:${port}` };
}
