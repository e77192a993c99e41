// The one connection of the page: the stock Socket.IO client, with reconnection done here so that
// the wait can be shown and cut short. Delay: min(1000 x 2^n, 30000) ms plus up to 30 % jitter, so
// that a crowd does not return at once.

import type { Socket } from "socket.io-client";
import type { Outcome } from "./outbox.ts";
import {
  type Ack,
  type ChatMessage,
  type History,
  type Presence,
  readAck,
  readHistory,
  readMessage,
  readPresence,
  readText,
  readTyping,
  type Typing,
} from "./protocol.ts";

export type Link =
  | { phase: "connecting" }
  | { phase: "online"; transport: string }
  | { phase: "waiting"; retryAt: number; why: string };

export interface ConnectionEvents {
  link(link: Link): void;
  online(id: string): void;
  offline(): void;
  message(message: ChatMessage): void;
  presence(presence: Presence): void;
  history(history: History): void;
  typing(typing: Typing): void;
  problem(text: string): void;
}

type Connect = (options: object) => Socket;

const ACK_TIMEOUT_MS = 10_000;
const DELAY_MAX_MS = 30_000;
const TRANSPORTS = ["polling", "websocket"];

export class Connection {
  #socket: Socket;
  #events: ConnectionEvents;
  #link: Link = { phase: "connecting" };
  #attempts = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #shutdown: string | undefined;

  constructor(connect: Connect, name: string, events: ConnectionEvents) {
    this.#events = events;
    this.#socket = connect({
      autoConnect: false,
      reconnection: false,
      timeout: 10_000,
      auth: { name },
      ...transportChoice(),
    });
    this.#listen();
    window.addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.retryNow();
    });
  }

  open(): void {
    clearTimeout(this.#timer);
    this.#set({ phase: "connecting" });
    this.#socket.connect();
  }

  /** Ends the wait for the next attempt. */
  retryNow(): void {
    if (this.#link.phase === "waiting") this.open();
  }

  /** The name is part of the handshake, so a new one needs a new connection. */
  rename(name: string): void {
    this.#socket.auth = { name };
    if (this.#socket.connected) {
      this.#socket.disconnect();
      this.open();
    }
  }

  send(content: string, room: string, done: (outcome: Outcome) => void): void {
    const request = this.#socket.timeout(ACK_TIMEOUT_MS);
    request.emit("chat-message", { content, room }, (error: Error | null, answer: unknown) => {
      if (error) return done({ kind: this.#socket.connected ? "timeout" : "cut" });
      done(outcome(readAck(answer)));
    });
  }

  /** Worth nothing a moment later: not kept while the connection is away. */
  typing(typing: Typing): void {
    this.#socket.volatile.emit("typing", typing);
  }

  join(room: string): void {
    this.#membership("join", room);
  }

  leave(room: string): void {
    this.#membership("leave", room);
  }

  #membership(event: "join" | "leave", room: string): void {
    if (!this.#socket.connected) return;
    this.#socket
      .timeout(ACK_TIMEOUT_MS)
      .emit(event, room, (error: Error | null, answer: unknown) => {
        if (error && this.#socket.connected) this.#events.problem(`No answer to ${event} #${room}`);
        if (!error && !Array.isArray(answer))
          this.#events.problem(`Cannot ${event} #${room}: ${refusal(answer)}`);
      });
  }

  #listen(): void {
    const socket = this.#socket;
    socket.on("connect", () => this.#connected());
    socket.on("disconnect", (reason) => this.#disconnected(reason));
    socket.on("connect_error", (error) => this.#wait(explain(error)));
    socket.on("chat-message", (value) => forward(readMessage(value), this.#events.message));
    socket.on("presence", (value) => forward(readPresence(value), this.#events.presence));
    socket.on("history", (value) => forward(readHistory(value), this.#events.history));
    socket.on("typing", (value) => forward(readTyping(value), this.#events.typing));
    socket.on("error", (value) =>
      this.#events.problem(readText(value, "The server reported an error")),
    );
    socket.on("SERVER_SHUTDOWN", (value) => {
      this.#shutdown = readText(value, "Server is shutting down");
      this.#events.problem(this.#shutdown);
    });
  }

  #connected(): void {
    this.#attempts = 0;
    this.#shutdown = undefined;
    const engine = this.#socket.io.engine;
    this.#set({ phase: "online", transport: engine.transport.name });
    engine.once("upgrade", (transport: { name: string }) => {
      if (this.#link.phase === "online") this.#set({ phase: "online", transport: transport.name });
    });
    this.#events.online(this.#socket.id ?? "");
  }

  #disconnected(reason: Socket.DisconnectReason): void {
    this.#events.offline();
    if (reason === "io client disconnect") return;
    this.#wait(
      reason === "io server disconnect" ? "The server closed the connection" : "Connection lost",
    );
  }

  #wait(why: string): void {
    const base = Math.min(1000 * 2 ** this.#attempts, DELAY_MAX_MS);
    const delay = base * (1 + 0.3 * Math.random());
    this.#attempts += 1;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.open(), delay);
    this.#set({ phase: "waiting", retryAt: Date.now() + delay, why: this.#shutdown ?? why });
  }

  #set(link: Link): void {
    this.#link = link;
    this.#events.link(link);
  }
}

/**
 * `?transport=polling` or `?transport=websocket` in the address fixes the transport, to try it
 * out.
 */
function transportChoice(): { transports?: string[] } {
  const wanted = new URLSearchParams(location.search).get("transport");
  return wanted !== null && TRANSPORTS.includes(wanted) ? { transports: [wanted] } : {};
}

function outcome(ack: Ack): Outcome {
  return "error" in ack ? { kind: "refused", reason: ack.error } : { kind: "accepted", ...ack };
}

function refusal(answer: unknown): string {
  const ack = readAck(answer);
  return "error" in ack ? ack.error : "unexpected answer";
}

/** A refused handshake says why in its message; a transport error only names the transport. */
function explain(error: Error & { type?: string }): string {
  return error.type === "TransportError" || error.message === "timeout"
    ? "The server cannot be reached"
    : error.message;
}

function forward<T>(value: T | undefined, to: (value: T) => void): void {
  if (value !== undefined) to(value);
}
