// The client in the words of the chat: what is said, what is heard, and the checks of both.

import { Client, type Connect, type Delivery, type Link } from "@sockeye/client";
import { loadToken, saveToken } from "./storage.ts";
import {
  type ChatMessage,
  type Crowd,
  type History,
  type Presence,
  readAck,
  readCrowd,
  readHistory,
  readMessage,
  readPresence,
  readText,
  readTyping,
  type Typing,
} from "./protocol.ts";

export interface ConnectionEvents {
  link(link: Link): void;
  online(id: string): void;
  offline(): void;
  queue(): void;
  message(message: ChatMessage): void;
  presence(presence: Presence): void;
  crowd(crowd: Crowd): void;
  history(history: History): void;
  typing(typing: Typing): void;
  problem(text: string): void;
}

type Answered = (answer: unknown) => void;

interface Said {
  "chat-message": (message: { content: string; room: string }, answered: Answered) => void;
  join: (room: string, answered: Answered) => void;
  leave: (room: string, answered: Answered) => void;
  typing: (typing: Typing) => void;
  "sockeye:presence": (wanted: { room: string }, answered: Answered) => void;
}

interface Heard {
  [event: string]: (value: unknown) => void;
}

const QUEUE_MAX = 50;
const TRANSPORTS = ["polling", "websocket"];

export class Connection {
  #client: Client<Heard, Said>;
  #events: ConnectionEvents;
  #token = tokenInAddress() ?? loadToken();

  constructor(connect: Connect, events: ConnectionEvents) {
    this.#events = events;
    this.#client = new Client(connect, {
      socket: { timeout: 10_000, ...transportChoice() },
      queueMax: QUEUE_MAX,
      refusal,
    });
    this.#listen();
  }

  /** The name is part of the handshake, so a new one needs a new connection. */
  open(name: string): void {
    this.#client.reconnect(this.#token === undefined ? { name } : { name, token: this.#token });
    this.#client.open();
  }

  /** Ends the wait for the next attempt. */
  retryNow(): void {
    this.#client.retryNow();
  }

  get queue(): { length: number; dropped: number } {
    return this.#client.queue;
  }

  send(content: string, room: string): Delivery<unknown> {
    return this.#client.send("chat-message", { content, room });
  }

  /** Worth nothing a moment later: not kept while the connection is away. */
  typing(typing: Typing): void {
    this.#client.emit("typing", typing);
  }

  join(room: string): void {
    void this.#membership("join", room);
  }

  leave(room: string): void {
    void this.#membership("leave", room);
  }

  who(room: string): Promise<unknown> {
    return this.#client.ask("sockeye:presence", { room });
  }

  async #membership(event: "join" | "leave", room: string): Promise<void> {
    try {
      const answer = await this.#client.ask(event, room);
      if (!Array.isArray(answer))
        this.#events.problem(`Cannot ${event} #${room}: ${refusal(answer) ?? "unexpected answer"}`);
    } catch {
      // Without a connection there is nothing to say: the next one joins again.
      if (this.#client.id !== undefined) this.#events.problem(`No answer to ${event} #${room}`);
    }
  }

  #listen(): void {
    const [client, events] = [this.#client, this.#events];
    client.watch("link", (link) => events.link(link));
    client.watch("online", (id) => events.online(id));
    client.watch("offline", () => events.offline());
    client.watch("queue", () => events.queue());
    client.on("chat-message", (value) => forward(readMessage(value), events.message));
    client.on("presence", (value) => forward(readPresence(value), events.presence));
    client.on("sockeye:presence", (value) => forward(readCrowd(value), events.crowd));
    client.on("history", (value) => forward(readHistory(value), events.history));
    client.on("typing", (value) => forward(readTyping(value), events.typing));
    client.on("error", (value) => events.problem(readText(value, "The server reported an error")));
    client.on("SERVER_SHUTDOWN", (value) =>
      events.problem(readText(value, "Server is shutting down")),
    );
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

/**
 * `?token=…` in the address is shown to a gateway that asks for tokens. It leaves the address, since
 * people copy that, and stays in the tab.
 */
function tokenInAddress(): string | undefined {
  const address = new URL(location.href);
  const token = address.searchParams.get("token") ?? undefined;
  if (token === undefined) return undefined;
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
  saveToken(token);
  return token;
}

function refusal(answer: unknown): string | undefined {
  const ack = readAck(answer);
  return "error" in ack ? ack.error : undefined;
}

function forward<T>(value: T | undefined, to: (value: T) => void): void {
  if (value !== undefined) to(value);
}
