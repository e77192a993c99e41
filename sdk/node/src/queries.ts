// Questions to gateways that wait for answers.
import type { Link } from "./link.js";
import type { Answers, Found, Item } from "./messages.js";
import { eventInfo, marked } from "./mark.js";
import { traceparent, within } from "./trace.js";

/** The gateway answers in time if it can; so long after it nothing is waited for any more. */
const LATE_MS = 1_000;
const LOOK_MS = 500;

export type Answer = Answers | Found | Item["counted"];

/** By which link a command went, and its number there. */
export interface Sent {
  link: Link;
  number: number;
}

interface Query extends Sent {
  /** The trace that asks. */
  trace: string;
  /** An event that came before asks. */
  redelivered: boolean;
  /** Nothing is waited for after this moment. */
  due: number;
  done(answer: Answer): void;
  failed(error: Error): void;
}

export class Queries {
  readonly #open = new Map<number, Query>();
  #numbers = 0;
  /** Looks for those that are overdue. */
  #clock?: NodeJS.Timeout;

  /** `send` says the question under this number; nothing: it is not sent. */
  ask(send: (query: number) => Sent | undefined, timeout_ms: number, done: (answer: any) => void, failed: (error: Error) => void): void {
    const query = ++this.#numbers;
    const sent = send(query);
    if (!sent) return failed(new Error("this worker has ended, too much waits for the gateway already, or it cannot take this (the console says why)"));
    const due = Date.now() + timeout_ms + LATE_MS;
    this.#open.set(query, { ...sent, trace: traceparent() ?? "", redelivered: eventInfo().redelivered, due, done, failed });
    this.#clock ??= setInterval(() => this.#look(), LOOK_MS).unref();
  }

  /** A gateway that is away answers nothing: its callers are told. */
  #look(): void {
    const now = Date.now();
    for (const [query, { link, due, failed, trace, redelivered }] of this.#open) {
      if (due > now) continue;
      this.#open.delete(query);
      const why = link.welcomed ? "it has too much to do" : "the link to it is down, and is tried again";
      within(trace, () => marked(redelivered, () => failed(new Error(`the gateway did not answer in time: ${why}`))));
    }
    if (this.#open.size > 0) return;
    clearInterval(this.#clock);
    this.#clock = undefined;
  }

  answered(query: number, answer: Answer): void {
    const asked = this.#open.get(query);
    this.#open.delete(query);
    if (asked) within(asked.trace, () => marked(asked.redelivered, () => asked.done(answer)));
  }

  /** The gateway could not carry out a command; `false`: no question went with it. */
  refused(link: Link, command: number, error: Error): boolean {
    for (const [query, { link: via, number, failed }] of this.#open) {
      if (via !== link || command !== number) continue;
      this.#open.delete(query);
      failed(error);
      return true;
    }
    return false;
  }

  /** The link is over: no answer comes by it. */
  fail(link: Link): void {
    for (const [query, { link: via, failed }] of this.#open) {
      if (via !== link) continue;
      this.#open.delete(query);
      failed(new Error("the link to the gateway ended before the answer came"));
    }
  }
}
