// Events in the order in which they came: those after a large one wait until its body is there.

import {
  fetchArgs,
  isFile,
  LARGE,
  type LargeMessage,
  type LargeOptions,
  largeMessage,
} from "./large.ts";

/** So many events wait for a body; with one more, the first body is given up. */
const WAITING_MAX = 10_000;

interface Heard {
  event: string;
  args: unknown[];
  /** Its body has come, or will not come. */
  ready: boolean;
  /** Waits for its body no longer. */
  lose?: (error: unknown) => void;
}

export interface InboxEvents {
  heard(event: string, args: unknown[]): void;
  lost(message: LargeMessage, error: Error): void;
}

export class Inbox {
  #waiting: Heard[] = [];
  #base: string | undefined;
  #options: LargeOptions;
  #events: InboxEvents;

  constructor(base: string | undefined, options: LargeOptions, events: InboxEvents) {
    this.#base = base;
    this.#options = options;
    this.#events = events;
  }

  push(event: string, args: unknown[]): void {
    const message = largeMessage(event, args);
    if (!message) {
      this.#pass({ event, args, ready: true });
    } else if (isFile(message) || message.size > this.#options.maxBytes) {
      // A listener of the event itself gets the reference.
      this.#pass({ event: message.event, args: [message, ...args.slice(1)], ready: true });
    } else {
      this.#fetch(message, args);
    }
  }

  #fetch(message: LargeMessage, args: unknown[]): void {
    const heard: Heard = { event: message.event, args, ready: false };
    heard.lose = (error) => {
      if (heard.ready) return;
      this.#settle(heard, LARGE, args);
      this.#events.lost(message, error instanceof Error ? error : new Error(String(error)));
    };
    this.#wait(heard);
    // The callback for an answer stands behind the reference.
    const rest = args.slice(1);
    fetchArgs(message, this.#base, this.#options).then((fetched) => {
      if (!heard.ready) this.#settle(heard, message.event, [...fetched, ...rest]);
    }, heard.lose);
  }

  #pass(heard: Heard): void {
    if (this.#waiting.length > 0) this.#wait(heard);
    else this.#events.heard(heard.event, heard.args);
  }

  #wait(heard: Heard): void {
    this.#waiting.push(heard);
    if (this.#waiting.length > WAITING_MAX)
      this.#waiting[0]?.lose?.(new Error(`${WAITING_MAX} events wait for it`));
  }

  #settle(heard: Heard, event: string, args: unknown[]): void {
    Object.assign(heard, { event, args, ready: true });
    while (this.#waiting[0]?.ready) {
      const first = this.#waiting.shift();
      if (first) this.#events.heard(first.event, first.args);
    }
  }
}
