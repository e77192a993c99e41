// Own messages on their way to the server: a bounded queue, one message in flight, order kept. One
// at a time, because a refusal in the middle (a rate limit, say) would otherwise let later
// messages overtake.

import type { Message } from "./rooms.ts";
import { markCut } from "./rooms.ts";

export const QUEUE_MAX = 50;

/** How long a rate limit makes the queue pause before it tries the same message again. */
const RATE_LIMIT_PAUSE_MS = 1100;

export type Outcome =
  | { kind: "accepted"; id: string; timestamp: number }
  | { kind: "refused"; reason: string }
  | { kind: "timeout" }
  | { kind: "cut" };

export interface OutboxEvents {
  send(message: Message, done: (outcome: Outcome) => void): void;
  accepted(message: Message, id: string, timestamp: number): void;
  changed(): void;
}

export class Outbox {
  #queue: Message[] = [];
  #inFlight: Message | undefined;
  #ready = false;
  #paused = false;
  #dropped = 0;
  #events: OutboxEvents;

  constructor(events: OutboxEvents) {
    this.#events = events;
  }

  get length(): number {
    return this.#queue.length;
  }

  /** Messages that the bound pushed out since the connection was lost. */
  get droppedTotal(): number {
    return this.#dropped;
  }

  push(message: Message): void {
    this.#queue.push(message);
    if (this.#queue.length > QUEUE_MAX) this.#dropOldest();
    this.#pump();
    this.#events.changed();
  }

  /** Messages of a room that was left are not sent any more. */
  removeRoom(room: string): void {
    this.#queue = this.#queue.filter((message) => message.room !== room);
    this.#events.changed();
  }

  online(): void {
    this.#ready = true;
    this.#dropped = 0;
    this.#pump();
    this.#events.changed();
  }

  offline(): void {
    this.#ready = false;
    this.#events.changed();
  }

  #dropOldest(): void {
    const oldest = this.#queue.shift();
    if (!oldest) return;
    oldest.state = "failed";
    oldest.problem = `Not kept: the offline queue holds ${QUEUE_MAX} messages.`;
    this.#dropped += 1;
  }

  #pump(): void {
    if (!this.#ready || this.#paused || this.#inFlight) return;
    const message = this.#queue.shift();
    if (!message) return;
    this.#inFlight = message;
    message.state = "sending";
    this.#events.send(message, (outcome) => this.#settle(message, outcome));
  }

  #settle(message: Message, outcome: Outcome): void {
    if (this.#inFlight !== message) return;
    this.#inFlight = undefined;
    // Without an ack the broadcast of the message may still have come, and with it the id.
    if (outcome.kind === "accepted") this.#events.accepted(message, outcome.id, outcome.timestamp);
    else if (message.id !== undefined) message.state = "sent";
    else if (outcome.kind === "cut") markCut(message);
    else if (isRateLimit(outcome)) this.#pause(message);
    else this.#fail(message, outcome);
    this.#pump();
    this.#events.changed();
  }

  #fail(message: Message, outcome: Outcome): void {
    message.state = "failed";
    message.uncertain = outcome.kind === "timeout";
    message.problem =
      outcome.kind === "refused"
        ? `Refused by the server: ${outcome.reason}`
        : "The server did not answer.";
  }

  #pause(message: Message): void {
    message.state = "queued";
    this.#queue.unshift(message);
    this.#paused = true;
    setTimeout(() => this.#resume(), RATE_LIMIT_PAUSE_MS);
  }

  #resume(): void {
    this.#paused = false;
    this.#pump();
    this.#events.changed();
  }
}

function isRateLimit(outcome: Outcome): boolean {
  return outcome.kind === "refused" && /rate limit/i.test(outcome.reason);
}
