// Own messages on their way to the server: what the client says of each, in the words of the page.

import type { Delivery, Failure } from "@sockeye/client";
import { readAck } from "./protocol.ts";
import type { Message } from "./rooms.ts";
import { markCut } from "./rooms.ts";

export interface OutboxEvents {
  send(message: Message): Delivery<unknown>;
  accepted(message: Message, id: string, timestamp: number): void;
}

export class Outbox {
  #open = new Map<Message, Delivery<unknown>>();
  #events: OutboxEvents;

  constructor(events: OutboxEvents) {
    this.#events = events;
  }

  push(message: Message): void {
    const delivery = this.#events.send(message);
    this.#open.set(message, delivery);
    delivery.watch(() => this.#moved(message, delivery));
  }

  /** Messages of a room that was left are not sent any more. */
  removeRoom(room: string): void {
    for (const [message, delivery] of [...this.#open])
      if (message.room === room) delivery.withdraw();
  }

  #moved(message: Message, delivery: Delivery<unknown>): void {
    const { state, failure } = delivery;
    if (state === "queued" || state === "sending") {
      message.state = state;
      return;
    }
    this.#open.delete(message);
    if (failure) fail(message, failure);
    else this.#accept(message, delivery.result);
  }

  #accept(message: Message, answer: unknown): void {
    const ack = readAck(answer);
    if (!("error" in ack)) this.#events.accepted(message, ack.id, ack.timestamp);
  }
}

function fail(message: Message, failure: Failure): void {
  // Without an ack the broadcast of the message may still have come, and with it the id.
  if (message.id !== undefined) message.state = "sent";
  else if (failure.kind === "cut") markCut(message);
  else {
    message.state = "failed";
    message.uncertain = failure.kind === "timeout";
    message.problem = explain(failure);
  }
}

function explain(failure: Failure): string {
  if (failure.kind === "refused") return `Refused by the server: ${failure.reason}`;
  if (failure.kind === "dropped")
    return `Not kept: the offline queue holds ${failure.queueMax} messages.`;
  return "The server did not answer.";
}
