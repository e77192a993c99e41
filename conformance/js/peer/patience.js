// Waiting with an end: every wait of the suites goes through here, so nothing can hang.
import { setTimeout as sleep } from "node:timers/promises";

export { sleep };
/** More where a browser stands between. */
const DEFAULT_MS = Number(process.env.CONFORMANCE_PATIENCE_MS ?? 5000);

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

/** Milliseconds that `action` took, and its result. */
export async function timed(action) {
  const start = performance.now();
  const value = await action();
  return { ms: performance.now() - start, value };
}
