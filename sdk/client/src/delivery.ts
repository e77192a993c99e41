// One event on its way to the server, and what became of it.

export type DeliveryState = "queued" | "sending" | "sent" | "failed";

export type Failure =
  /** The server said no. */
  | { kind: "refused"; reason: string; answer: unknown }
  /** No answer came in time; the server may have taken the event. */
  | { kind: "timeout" }
  /** The connection was lost before the answer; the server may have taken the event. */
  | { kind: "cut" }
  /** The queue was full, and this was the oldest event in it. */
  | { kind: "dropped"; queueMax: number }
  /** `withdraw` was called, or the client was closed. */
  | { kind: "withdrawn" };

export class DeliveryError extends Error {
  constructor(
    readonly event: string,
    readonly failure: Failure,
  ) {
    super(`cannot deliver ${JSON.stringify(event)}: ${explain(failure)}`);
    this.name = "DeliveryError";
  }
}

/** What the queue knows of a delivery, and its owner does not change. */
export interface Progress<Answer> {
  state: DeliveryState;
  answer?: Answer;
  failure?: Failure;
}

export class Delivery<Answer = unknown> {
  #progress: Progress<Answer> = { state: "queued" };
  #watchers: ((delivery: Delivery<Answer>) => void)[] = [];
  #withdraw: (delivery: Delivery<Answer>) => boolean;

  /** @internal */
  constructor(
    readonly event: string,
    readonly args: readonly unknown[],
    withdraw: (delivery: Delivery<Answer>) => boolean,
  ) {
    this.#withdraw = withdraw;
  }

  get state(): DeliveryState {
    return this.#progress.state;
  }

  get failure(): Failure | undefined {
    return this.#progress.failure;
  }

  /** The server's answer, once the state is `sent`. */
  get result(): Answer | undefined {
    return this.#progress.answer;
  }

  /** No answer came: only the user can decide whether to send it again. */
  get uncertain(): boolean {
    const kind = this.failure?.kind;
    return kind === "timeout" || kind === "cut";
  }

  /** Takes it out of the queue. False if it is on its way already. */
  withdraw(): boolean {
    return this.#withdraw(this);
  }

  /** Called at each change of the state. */
  watch(watcher: (delivery: Delivery<Answer>) => void): this {
    this.#watchers.push(watcher);
    return this;
  }

  /** The server's answer; rejects with a `DeliveryError`. */
  answer(): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const { state, answer, failure } = this.#progress;
        if (state === "sent") resolve(answer as Answer);
        if (failure) reject(new DeliveryError(this.event, failure));
      };
      look();
      this.watch(look);
    });
  }

  /** @internal */
  become(progress: Progress<Answer>): void {
    this.#progress = progress;
    for (const watcher of this.#watchers) watcher(this);
  }
}

function explain(failure: Failure): string {
  switch (failure.kind) {
    case "refused":
      return `the server refused it: ${failure.reason}`;
    case "timeout":
      return "the server did not answer in time; it may have taken it";
    case "cut":
      return "the connection was lost before the server answered; it may have taken it";
    case "dropped":
      return `the queue holds ${failure.queueMax} events, and newer ones came`;
    case "withdrawn":
      return "it was withdrawn before it was sent";
  }
}
