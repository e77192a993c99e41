// Events whose handlers are not done: until their promises settle, or for as long as the program lets them.

interface Waiting {
  due: number;
  event: string;
  release(): void;
}

export class Late {
  readonly #timeout_ms: number;
  /** The oldest first. */
  readonly #waiting = new Set<Waiting>();

  constructor(timeout_ms: number) {
    this.#timeout_ms = timeout_ms;
  }

  /** `release` is called once, when the promise settles or when it is late. A rejection stays one that nobody handles. */
  watch(event: string, promise: Promise<unknown>, release: () => void): void {
    const waiting = { due: performance.now() + this.#timeout_ms, event, release };
    this.#waiting.add(waiting);
    const settle = () => void (this.#waiting.delete(waiting) && release());
    promise.then(settle, (error) => {
      settle();
      throw error;
    });
  }

  /** Releases those that are late. Returns their names. */
  look(): string[] {
    const now = performance.now();
    const late: string[] = [];
    for (const waiting of this.#waiting) {
      if (waiting.due > now) break;
      this.#waiting.delete(waiting);
      waiting.release();
      late.push(waiting.event);
    }
    return late;
  }

  /** Their items are nobody's any more. */
  clear(): void {
    this.#waiting.clear();
  }
}
