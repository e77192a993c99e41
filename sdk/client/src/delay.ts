// When to come back: a delay that grows with each failure, and the delays that servers give.

export interface BackoffOptions {
  /** The first delay; each failure doubles it. */
  firstMs: number;
  maxMs: number;
  /** Share of the delay that is added at random, so that a crowd does not return at once. */
  jitter: number;
}

/** Longer delays of a server are not believed. */
const GIVEN_MAX_MS = 3_600_000;

/** How long a rate limit without a delay of the server makes a sender wait. */
const RATE_LIMIT_MS = 1100;

export class Backoff {
  #failures = 0;
  #options: BackoffOptions;
  #random: () => number;

  constructor(options: BackoffOptions, random = Math.random) {
    this.#options = options;
    this.#random = random;
  }

  next(): number {
    const { firstMs, maxMs } = this.#options;
    const base = Math.min(firstMs * 2 ** this.#failures, maxMs);
    this.#failures += 1;
    return this.#spread(base);
  }

  /**
   * Seconds in a `Retry-After` are the same for everybody, and everybody must not come at the same
   * time.
   */
  spreadSeconds(seconds: number): number {
    return this.#spread(Math.max(seconds * 1000, this.#options.firstMs));
  }

  reset(): void {
    this.#failures = 0;
  }

  #spread(ms: number): number {
    return ms * (1 + this.#options.jitter * this.#random());
  }
}

/** The member `retry_after_ms` of what a server says. */
export function retryAfter(value: unknown): number | undefined {
  return positive(member(value, "retry_after_ms"));
}

/** Milliseconds that a refused sender waits; nothing if waiting does not help. */
export function pauseOf(answer: unknown, reason: string): number | undefined {
  return retryAfter(answer) ?? (/rate limit/i.test(reason) ? RATE_LIMIT_MS : undefined);
}

/** Seconds of the header `Retry-After` (RFC 9110 §10.2.3) of an answer to long-polling. */
export function retryAfterHeader(error: unknown): number | undefined {
  const request = member(error, "context") as Partial<XMLHttpRequest> | undefined;
  if (typeof request?.getResponseHeader !== "function") return undefined;
  const text = request.getResponseHeader("Retry-After");
  const seconds = text === null || text === "" ? undefined : positive(Number(text));
  return seconds === undefined ? undefined : Math.min(seconds, GIVEN_MAX_MS / 1000);
}

export function member(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return (value as Record<string, unknown>)[name];
}

function positive(value: unknown): number | undefined {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) return undefined;
  return Math.min(value, GIVEN_MAX_MS);
}
