// The one connection of a client: the stock Socket.IO client, with reconnection done here so that
// the wait can be shown and cut short, and so that a server can say how long it is.

import type { ManagerOptions, Socket, SocketOptions } from "socket.io-client";
import { Backoff, type BackoffOptions, member, retryAfter, retryAfterHeader } from "./delay.ts";

export type Link =
  | { phase: "closed" }
  | { phase: "connecting" }
  | { phase: "online"; transport: string }
  /** `given`: the server named the time. `why` is for people. */
  | { phase: "waiting"; retryAt: number; why: string; given: boolean };

export type SocketSettings = Partial<ManagerOptions & SocketOptions>;

/** `io` of socket.io-client. */
export type Connect = (url: string | undefined, options: SocketSettings) => Socket;

export interface ConnectionEvents {
  link(link: Link): void;
  /** `recovered`: its socket is the one that it lost, and what it missed follows. */
  online(recovered: boolean): void;
  offline(): void;
  heard(event: string, args: unknown[]): void;
  gap(rooms: string[] | null): void;
}

/** The event by which a gateway says that it stops, and when to come back. */
const SHUTDOWN = "SERVER_SHUTDOWN";

/** The event by which it says that something is missing. */
const GAP = "sockeye:gap";

/** A connection that did not last so long does not end a row of failures. */
const LASTING_MS = 5000;

export class Connection {
  #make: () => Socket;
  #socket: Socket | undefined;
  #events: ConnectionEvents;
  #backoff: Backoff;
  #link: Link = { phase: "closed" };
  #timer: ReturnType<typeof setTimeout> | undefined;
  #onlineSince = 0;
  #shutdown: { why: string; backAt: number | undefined } | undefined;

  constructor(make: () => Socket, backoff: BackoffOptions, events: ConnectionEvents) {
    this.#make = make;
    this.#backoff = new Backoff(backoff);
    this.#events = events;
  }

  get link(): Link {
    return this.#link;
  }

  /** Nothing while there is no connection. */
  get socket(): Socket | undefined {
    return this.#socket?.connected ? this.#socket : undefined;
  }

  open(): void {
    if (this.#link.phase !== "closed") return;
    globalThis.addEventListener?.("online", this.#wake);
    globalThis.document?.addEventListener("visibilitychange", this.#wake);
    this.#attempt();
  }

  close(): void {
    globalThis.removeEventListener?.("online", this.#wake);
    globalThis.document?.removeEventListener("visibilitychange", this.#wake);
    clearTimeout(this.#timer);
    this.#set({ phase: "closed" });
    this.#socket?.disconnect();
    this.#backoff.reset();
  }

  retryNow(): void {
    if (this.#link.phase === "waiting") this.#attempt();
  }

  /** What is said when connecting (`auth`) is said again. */
  reconnect(auth?: Socket["auth"]): void {
    const socket = this.#ensure();
    if (auth !== undefined) socket.auth = auth;
    if (this.#link.phase !== "connecting" && this.#link.phase !== "online") return;
    socket.disconnect();
    this.#attempt();
  }

  /** The network is back, or somebody looks. A time that the server named is kept all the same. */
  #wake = (): void => {
    if (globalThis.document?.hidden) return;
    if (this.#link.phase === "waiting" && !this.#link.given) this.#attempt();
  };

  #ensure(): Socket {
    if (this.#socket) return this.#socket;
    const socket = this.#make();
    this.#socket = socket;
    socket.on("connect", () => this.#connected(socket));
    socket.on("disconnect", (reason) => this.#disconnected(reason));
    socket.on("connect_error", (error) => this.#refused(error));
    socket.onAny((event: string, ...args: unknown[]) =>
      this.#heard(event, withoutOffset(socket, args)),
    );
    return socket;
  }

  #attempt(): void {
    clearTimeout(this.#timer);
    this.#set({ phase: "connecting" });
    this.#ensure().connect();
  }

  #connected(socket: Socket): void {
    this.#onlineSince = Date.now();
    this.#shutdown = undefined;
    const engine = socket.io.engine;
    this.#set({ phase: "online", transport: engine.transport.name });
    engine.once("upgrade", (transport: { name: string }) => {
      if (this.#link.phase === "online") this.#set({ phase: "online", transport: transport.name });
    });
    this.#events.online(socket.recovered);
  }

  /** The stock client also says this of a transport that ends before or after CONNECT was refused. */
  #disconnected(reason: Socket.DisconnectReason): void {
    const { phase } = this.#link;
    if (phase === "waiting") return;
    if (phase !== "connecting") {
      if (Date.now() - this.#onlineSince >= LASTING_MS) this.#backoff.reset();
      this.#events.offline();
    }
    if (reason === "io client disconnect") return;
    const why =
      reason === "io server disconnect" ? "The server closed the connection" : "Connection lost";
    const backAt = this.#shutdown?.backAt;
    const given = backAt === undefined ? undefined : Math.max(0, backAt - Date.now());
    this.#wait(why, given);
  }

  #refused(error: Error & { type?: string; data?: unknown }): void {
    if (this.#link.phase === "closed") return;
    const seconds = retryAfterHeader(error);
    const given = retryAfter(error.data);
    this.#wait(explain(error), given ?? (seconds && this.#backoff.spreadSeconds(seconds)));
  }

  #heard(event: string, args: unknown[]): void {
    if (event === GAP) {
      const rooms = member(args[0], "rooms");
      this.#events.gap(Array.isArray(rooms) ? rooms.map(String) : null);
      return;
    }
    if (event === SHUTDOWN) {
      const ms = retryAfter(args[0]);
      const backAt = ms === undefined ? undefined : Date.now() + ms;
      const message = member(args[0], "message");
      const why = typeof message === "string" ? message : "Server is shutting down";
      this.#shutdown = { why, backAt };
    }
    this.#events.heard(event, args);
  }

  #wait(why: string, given: number | undefined): void {
    const delay = given ?? this.#backoff.next();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#attempt(), delay);
    this.#set({
      phase: "waiting",
      retryAt: Date.now() + delay,
      why: this.#shutdown?.why ?? why,
      given: given !== undefined,
    });
  }

  #set(link: Link): void {
    this.#link = link;
    this.#events.link(link);
  }
}

/** Where the gateway recovers, each event has its place as one more argument, which the stock client has taken by now. */
const OFFSET = /^(?:[\w-]{16}|[\w-]{28})$/;

function withoutOffset(socket: Socket, args: unknown[]): unknown[] {
  const last = args.at(-1);
  const recovers = (socket as unknown as { _pid?: string })._pid !== undefined;
  return recovers && typeof last === "string" && OFFSET.test(last) ? args.slice(0, -1) : args;
}

/** A refused handshake says why in its message; a transport error only names the transport. */
function explain(error: Error & { type?: string }): string {
  return error.type === "TransportError" || error.message === "timeout"
    ? "The server cannot be reached"
    : error.message;
}
