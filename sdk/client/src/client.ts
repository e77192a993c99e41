// The client: typed events, a queue for what must arrive, and the state of the connection.

import type { Socket } from "socket.io-client";
import { type Connect, Connection, type Link, type SocketSettings } from "./connection.ts";
import { type BackoffOptions, member } from "./delay.ts";
import { type Delivery, DeliveryError } from "./delivery.ts";
import type { AnswerOf, ArgsOf, Events, ListenerOf, NameOf } from "./events.ts";
import { Inbox } from "./inbox.ts";
import type { LargeMessage, LargeOptions } from "./large.ts";
import { Outbox, type Outcome } from "./outbox.ts";

export interface ClientOptions {
  /** Where the gateway is; without it, a browser asks the host of its page. */
  url?: string;
  /** Options of socket.io-client: `auth`, `transports`, `path`, `parser` … */
  socket?: SocketSettings;
  /** Events that wait while there is no connection; above it the oldest fails. */
  queueMax?: number;
  answerTimeoutMs?: number;
  backoff?: Partial<BackoffOptions>;
  /** Bodies of large events. */
  large?: Partial<LargeOptions>;
  /**
   * Why an answer means no; nothing if it does not. Without it: the member `error`, if that is a
   * text.
   */
  refusal?: (answer: unknown) => string | undefined;
}

/** What clients tell about themselves. */
export interface Notices {
  link: (link: Link) => void;
  /**
   * Connected; the queue follows. `recovered`: with the id, the rooms and all that was said
   * meanwhile. If not, rooms ended with the connection: join them again here.
   */
  online: (id: string, recovered: boolean) => void;
  offline: () => void;
  /**
   * Events are missing although the connection stayed: this client was too slow, or nodes lost
   * some. They were for these rooms, or anything if it is null.
   */
  gap: (rooms: string[] | null) => void;
  /** The queue changed. */
  queue: () => void;
  /** The body of a large event could not be fetched: listeners of `large_message` got the reference. */
  lost: (message: LargeMessage, error: Error) => void;
}

type Listener = (...args: never[]) => void;

const DEFAULTS = { queueMax: 50, answerTimeoutMs: 10_000 };
const LARGE_BODIES: LargeOptions = { maxBytes: 16 * 1024 * 1024, timeoutMs: 60_000, origins: [] };
const BACKOFF: BackoffOptions = { firstMs: 1000, maxMs: 30_000, jitter: 0.3 };

export class Client<Heard extends Events = Events, Said extends Events = Events> {
  #connection: Connection;
  #outbox: Outbox;
  #listeners = new Map<string, Set<Listener>>();
  #notices = new Map<string, Set<Listener>>();
  #answerTimeoutMs: number;
  #url: string | undefined;

  /** `connect` is `io` of socket.io-client. Nothing is opened before `open()`. */
  constructor(connect: Connect, options: ClientOptions = {}) {
    const { url, socket, queueMax, answerTimeoutMs, backoff } = { ...DEFAULTS, ...options };
    this.#answerTimeoutMs = answerTimeoutMs;
    this.#url = url;
    const large = { ...LARGE_BODIES, ...options.large };
    const inbox = new Inbox(url, large, {
      heard: (event, args) => call(this.#listeners.get(event), args),
      lost: (message, error) => this.#tell("lost", message, error),
    });
    if (!(queueMax >= 1)) throw new RangeError(`queueMax must be 1 or more, not ${queueMax}`);
    const query = { recovery: "1", ...socket?.query };
    const make = () =>
      connect(url, { ...socket, query, autoConnect: false, reconnection: false, forceNew: true });
    this.#connection = new Connection(
      make,
      { ...BACKOFF, ...backoff },
      {
        link: (link) => this.#tell("link", link),
        online: (recovered) => this.#online(recovered),
        offline: () => this.#offline(),
        heard: (event, args) => inbox.push(event, args),
        gap: (rooms) => this.#tell("gap", rooms),
      },
    );
    this.#outbox = new Outbox({
      queueMax,
      refusal: options.refusal ?? refusal,
      send: (delivery, done) => this.#post(delivery, done),
      changed: () => this.#tell("queue"),
    });
  }

  get link(): Link {
    return this.#connection.link;
  }

  /** Where the gateway is, as it was told. */
  get url(): string | undefined {
    return this.#url;
  }

  /** Of this connection; each has another, unless it is recovered. */
  get id(): string | undefined {
    return this.#connection.socket?.id;
  }

  /** How many events wait, and how many the bound pushed out since the connection was lost. */
  get queue(): { length: number; dropped: number } {
    return { length: this.#outbox.length, dropped: this.#outbox.droppedTotal };
  }

  open(): this {
    this.#connection.open();
    return this;
  }

  /** Deliveries that wait fail as withdrawn. `open()` begins anew. */
  close(): void {
    this.#outbox.clear();
    this.#connection.close();
  }

  /** Ends the wait for the next attempt. */
  retryNow(): void {
    this.#connection.retryNow();
  }

  /** Connects again, to say another `auth`. */
  reconnect(auth?: Socket["auth"]): void {
    this.#connection.reconnect(auth);
  }

  /** Listens to an event of the server, over all connections. The result ends it. */
  on<N extends NameOf<Heard>>(event: N, listener: ListenerOf<Heard, N>): () => void {
    return add(this.#listeners, event, listener as unknown as Listener);
  }

  /** Listens to what this client tells about itself. The result ends it. */
  watch<N extends keyof Notices>(notice: N, listener: Notices[N]): () => void {
    return add(this.#notices, notice, listener as Listener);
  }

  /** Must arrive: waits in the queue while there is no connection, keeps its place, and says what became of it. */
  send<N extends NameOf<Said>>(event: N, ...args: ArgsOf<Said, N>): Delivery<AnswerOf<Said, N>> {
    return this.#outbox.push(event, args);
  }

  /** Wants an answer now: rejects with a `DeliveryError` without a connection. */
  ask<N extends NameOf<Said>>(event: N, ...args: ArgsOf<Said, N>): Promise<AnswerOf<Said, N>> {
    return new Promise((resolve, reject) => {
      this.#request(event, args, (outcome) => {
        if (outcome.kind === "answer") resolve(outcome.answer as AnswerOf<Said, N>);
        else reject(new DeliveryError(event, outcome));
      });
    });
  }

  /** Worth nothing a moment later: dropped without a connection, or while the way is full. */
  emit<N extends NameOf<Said>>(event: N, ...args: ArgsOf<Said, N>): void {
    this.#connection.socket?.volatile.emit(event, ...args);
  }

  #post(delivery: Delivery, done: (outcome: Outcome) => void): void {
    this.#request(delivery.event, delivery.args, done);
  }

  #request(event: string, args: readonly unknown[], done: (outcome: Outcome) => void): void {
    const socket = this.#connection.socket;
    const answered = (error: Error | null, answer: unknown) => {
      if (error) done({ kind: socket?.connected ? "timeout" : "cut" });
      else done({ kind: "answer", answer });
    };
    if (socket) socket.timeout(this.#answerTimeoutMs).emit(event, ...args, answered);
    else done({ kind: "cut" });
  }

  #online(recovered: boolean): void {
    this.#tell("online", this.id ?? "", recovered);
    this.#outbox.online();
  }

  #offline(): void {
    this.#tell("offline");
    this.#outbox.offline();
  }

  #tell<N extends keyof Notices>(notice: N, ...args: Parameters<Notices[N]>): void {
    call(this.#notices.get(notice), args);
  }
}

function add(to: Map<string, Set<Listener>>, name: string, listener: Listener): () => void {
  const known = to.get(name) ?? new Set();
  to.set(name, known);
  known.add(listener);
  return () => {
    known.delete(listener);
  };
}

function call(listeners: Set<Listener> | undefined, args: unknown[]): void {
  for (const listener of [...(listeners ?? [])]) listener(...(args as never[]));
}

function refusal(answer: unknown): string | undefined {
  const error = member(answer, "error");
  return typeof error === "string" ? error : undefined;
}
