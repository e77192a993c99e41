// The arithmetic of delays. Node 20 does not read TypeScript, so the file is built here.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const bundle = await rolldown({
  input: fileURLToPath(new URL("../src/delay.ts", import.meta.url)),
});
const { output } = await bundle.generate({ format: "esm" });
const { Backoff, pauseOf, retryAfter, retryAfterHeader } = await import(
  `data:text/javascript;base64,${Buffer.from(output[0].code).toString("base64")}`
);

const OPTIONS = { firstMs: 1000, maxMs: 30_000, jitter: 0.3 };

test("delays double up to a maximum, and begin anew after a success", () => {
  const backoff = new Backoff(OPTIONS, () => 0);
  const delays = Array.from({ length: 7 }, () => backoff.next());
  assert.deepEqual(delays, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  backoff.reset();
  assert.equal(backoff.next(), 1000);
  assert.equal(new Backoff(OPTIONS, () => 1).next(), 1300);
  assert.equal(new Backoff(OPTIONS, () => 1).spreadSeconds(10), 13_000);
});

test("a server's delay is taken if it makes sense", () => {
  assert.equal(retryAfter({ retry_after_ms: 2345 }), 2345);
  // setTimeout would fire at once for what does not fit into 31 bits.
  assert.equal(retryAfter({ retry_after_ms: 1e12 }), 3_600_000);
  for (const wrong of [
    undefined,
    null,
    "soon",
    {},
    { retry_after_ms: "5" },
    { retry_after_ms: -1 },
    { retry_after_ms: Number.NaN },
  ]) {
    assert.equal(retryAfter(wrong), undefined);
  }
  const answer = (value) => ({ context: { getResponseHeader: () => value } });
  assert.deepEqual(
    ["7", "", null, "Wed, 21 Oct 2026 07:28:00 GMT", "1e9"].map((value) =>
      retryAfterHeader(answer(value)),
    ),
    [7, undefined, undefined, undefined, 3600],
  );
  assert.equal(retryAfterHeader(new Error("websocket error")), undefined);
  assert.deepEqual(
    [pauseOf({ retry_after_ms: 5 }, "busy"), pauseOf({}, "Rate limit exceeded"), pauseOf({}, "no")],
    [5, 1100, undefined],
  );
});
