// Events on their way to the server: a bounded queue, one event in flight, order kept. One at a
// time, because a refusal in the middle (a rate limit, say) would otherwise let later events
// overtake.

import { pauseOf } from "./delay.ts";
import { Delivery, type Failure, type Progress } from "./delivery.ts";

// biome-ignore lint/suspicious/noExplicitAny: the queue does not read answers
type Any = any;

export type Outcome = { kind: "answer"; answer: unknown } | { kind: "timeout" } | { kind: "cut" };

export interface OutboxOptions {
  queueMax: number;
  /** Why the server said no; nothing if it did not. */
  refusal(answer: unknown): string | undefined;
  send(delivery: Delivery<Any>, done: (outcome: Outcome) => void): void;
  changed(): void;
}

export class Outbox {
  #queue: Delivery<Any>[] = [];
  #inFlight: Delivery<Any> | undefined;
  #ready = false;
  #pause: ReturnType<typeof setTimeout> | undefined;
  #dropped = 0;
  #options: OutboxOptions;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  get length(): number {
    return this.#queue.length;
  }

  /** Events that the bound pushed out since the connection was lost. */
  get droppedTotal(): number {
    return this.#dropped;
  }

  push<Answer>(event: string, args: readonly unknown[]): Delivery<Answer> {
    const delivery = new Delivery<Answer>(event, args, (one) => this.#withdraw(one));
    this.#queue.push(delivery);
    if (this.#queue.length > this.#options.queueMax) this.#dropOldest();
    // Not at once: the caller has yet to say who watches.
    queueMicrotask(() => this.#pump());
    this.#options.changed();
    return delivery;
  }

  online(): void {
    this.#ready = true;
    this.#dropped = 0;
    this.#pump();
    this.#options.changed();
  }

  offline(): void {
    this.#ready = false;
    this.#options.changed();
  }

  /** Nothing is sent any more. Every caller that waits is told. */
  clear(): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
    for (const delivery of this.#queue.splice(0)) this.#fail(delivery, { kind: "withdrawn" });
    this.#options.changed();
  }

  #withdraw(delivery: Delivery<Any>): boolean {
    const at = this.#queue.indexOf(delivery);
    if (at < 0) return false;
    this.#queue.splice(at, 1);
    this.#fail(delivery, { kind: "withdrawn" });
    this.#options.changed();
    return true;
  }

  #dropOldest(): void {
    const oldest = this.#queue.shift();
    if (!oldest) return;
    this.#dropped += 1;
    this.#fail(oldest, { kind: "dropped", queueMax: this.#options.queueMax });
  }

  #pump(): void {
    if (!this.#ready || this.#pause !== undefined || this.#inFlight) return;
    const delivery = this.#queue.shift();
    if (!delivery) return;
    this.#inFlight = delivery;
    this.#set(delivery, { state: "sending" });
    this.#options.send(delivery, (outcome) => this.#settle(delivery, outcome));
  }

  #settle(delivery: Delivery<Any>, outcome: Outcome): void {
    if (this.#inFlight !== delivery) return;
    this.#inFlight = undefined;
    if (outcome.kind === "answer") this.#answered(delivery, outcome.answer);
    else this.#fail(delivery, outcome);
    this.#pump();
    this.#options.changed();
  }

  #answered(delivery: Delivery<Any>, answer: unknown): void {
    const reason = this.#options.refusal(answer);
    const pause = reason === undefined ? undefined : pauseOf(answer, reason);
    if (reason === undefined) {
      this.#set(delivery, { state: "sent", answer });
    } else if (pause === undefined) {
      this.#fail(delivery, { kind: "refused", reason, answer });
    } else {
      this.#queue.unshift(delivery);
      this.#pause = setTimeout(() => this.#resume(), pause);
      this.#set(delivery, { state: "queued" });
    }
  }

  #resume(): void {
    this.#pause = undefined;
    this.#pump();
    this.#options.changed();
  }

  #fail(delivery: Delivery<Any>, failure: Failure): void {
    this.#set(delivery, { state: "failed", failure });
  }

  #set(delivery: Delivery<Any>, progress: Progress<Any>): void {
    delivery.become(progress);
  }
}
