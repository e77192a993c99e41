// Waiting with an end: every wait of the suites goes through here, so nothing can hang.
import { setTimeout as sleep } from "node:timers/promises";

export { sleep };
/** As long as tests of the gateway wait; more where a browser stands between. */
const DEFAULT_MS = Number(process.env.CONFORMANCE_PATIENCE_MS ?? 20_000);

/** Rejects with `what` when the promise takes longer than `ms`. */
export async function within(promise, what, ms = DEFAULT_MS) {
  let timer;
  const deadline = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${ms} ms for ${what}`)), ms);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves when `condition()` is truthy; checks every few milliseconds. */
export async function eventually(condition, what, ms = DEFAULT_MS) {
  const end = performance.now() + ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() > end) throw new Error(`waited ${ms} ms until ${what}`);
    await sleep(5);
  }
}

/** Something took longer than it may: for the server, or because the machine is busy. */
export class Late extends Error {}

/** A client that got no time for its pongs loses its session. */
const ended = /closed with \d|was answered 400/;

/** Measures again what was late: a busy machine is late now and then, and a server that is too slow is so each time. */
export async function unhurried(measure, tries = 5) {
  for (let left = tries - 1; ; left -= 1) {
    try {
      return await measure();
    } catch (error) {
      if (left === 0 || !(error instanceof Late || ended.test(error.message))) throw error;
    }
  }
}

/** Milliseconds that `action` took, and its result. */
export async function timed(action) {
  const start = performance.now();
  const value = await action();
  return { ms: performance.now() - start, value };
}
