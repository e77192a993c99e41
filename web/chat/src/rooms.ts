// The rooms of this tab: messages in order, unread counts, presence. Knows no DOM and no network.
// Invariant: within a room a server id occurs once, and messages are ordered by the server's time;
// own messages that the server has not confirmed stay behind everything that was there when they
// were written.

import { type ChatMessage, DEFAULT_ROOM } from "./protocol.ts";
import type { StoredRoom } from "./storage.ts";

export type MessageState = "queued" | "sending" | "sent" | "failed";

export interface Message {
  /** Identity on this device; survives the moment when the server gives the id. */
  key: string;
  id?: string;
  room: string;
  sender: string;
  name?: string;
  content: string;
  timestamp: number;
  own: boolean;
  state: MessageState;
  /** Why it failed, as a sentence for the reader. */
  problem?: string;
  /** The server may have taken it although no ack came. */
  uncertain?: boolean;
}

export interface Room {
  name: string;
  messages: Message[];
  ids: Set<string>;
  unread: number;
  /** Key of the first message that was unread when the room was last opened. */
  firstUnread?: string;
  /** Members now; absent while unknown. */
  count?: number;
}

/**
 * Older messages are forgotten on this device; chosen so that the copy for a reload fits any
 * browser's quota.
 */
const MESSAGES_MAX = 300;
const OWN_IDS_MAX = 20;

export class Rooms {
  readonly all = new Map<string, Room>();
  active = DEFAULT_ROOM;
  #ownIds: string[];
  #left = new Set<string>();
  #lastKey = 0;

  constructor(ownIds: string[] = []) {
    this.#ownIds = ownIds.slice(-OWN_IDS_MAX);
    this.open(DEFAULT_ROOM);
  }

  get ownIds(): readonly string[] {
    return this.#ownIds;
  }

  /** Each connection has a socket id of its own; messages of earlier ones are still ours. */
  addOwnId(id: string): void {
    this.#ownIds = [...this.#ownIds.filter((known) => known !== id), id].slice(-OWN_IDS_MAX);
  }

  open(name: string): Room {
    const known = this.all.get(name);
    if (known) return known;
    const room: Room = { name, messages: [], ids: new Set(), unread: 0 };
    this.all.set(name, room);
    this.#left.delete(name);
    return room;
  }

  close(name: string): void {
    if (name === DEFAULT_ROOM) return;
    this.all.delete(name);
    this.#left.add(name);
    if (this.active === name) this.active = DEFAULT_ROOM;
  }

  current(): Room {
    return this.open(this.active);
  }

  show(name: string): Room {
    const previous = this.all.get(this.active);
    if (previous) delete previous.firstUnread;
    const room = this.open(name);
    this.active = name;
    this.markRead(room);
    return room;
  }

  markRead(room: Room): void {
    room.unread = 0;
  }

  unreadTotal(): number {
    let total = 0;
    for (const room of this.all.values()) total += room.unread;
    return total;
  }

  /** A message written here, not yet sent. */
  write(content: string, room: string, name: string): Message {
    this.#lastKey += 1;
    const key = `own-${Date.now().toString(36)}-${this.#lastKey}`;
    const message: Message = {
      key,
      room,
      name,
      content,
      sender: this.#ownIds.at(-1) ?? "",
      timestamp: Date.now(),
      own: true,
      state: "queued",
    };
    this.#place(this.open(room), message);
    return message;
  }

  /** Puts a failed message back to the end, as if written now. */
  rewrite(message: Message): void {
    this.discard(message);
    message.timestamp = Date.now();
    message.state = "queued";
    delete message.problem;
    delete message.uncertain;
    this.#place(this.open(message.room), message);
  }

  discard(message: Message): void {
    const room = this.all.get(message.room);
    if (room) room.messages = room.messages.filter((other) => other !== message);
  }

  /** The server accepted an own message: it takes its place among the others. */
  confirm(message: Message, id: string, timestamp: number): void {
    const room = this.all.get(message.room);
    if (!room) return;
    if (message.id === undefined && room.ids.has(id)) {
      this.discard(message);
      return;
    }
    this.discard(message);
    message.id = id;
    message.timestamp = timestamp;
    message.state = "sent";
    delete message.problem;
    delete message.uncertain;
    room.ids.add(id);
    this.#place(room, message);
  }

  /** A message from the server, live or from history. Returns it if it was new to this device. */
  receive(incoming: ChatMessage): Message | undefined {
    // Messages that were on their way when the room was left must not bring it back.
    if (this.#left.has(incoming.room)) return undefined;
    const room = this.open(incoming.room);
    if (room.ids.has(incoming.id)) return undefined;
    const own = this.#ownIds.includes(incoming.sender);
    const waiting = own
      ? room.messages.find((message) => isWaitingFor(message, incoming.content))
      : undefined;
    if (waiting) {
      this.confirm(waiting, incoming.id, incoming.timestamp);
      return undefined;
    }
    const message: Message = { ...incoming, key: incoming.id, own, state: "sent" };
    room.ids.add(incoming.id);
    this.#place(room, message);
    return message;
  }

  countUnread(message: Message): void {
    const room = this.open(message.room);
    if (room.unread === 0) room.firstUnread = message.key;
    room.unread += 1;
  }

  /**
   * Merges what the server remembers. Missed messages count as unread once the room was known
   * here.
   */
  receiveHistory(name: string, messages: ChatMessage[]): Message[] {
    if (this.#left.has(name)) return [];
    const room = this.open(name);
    const seenUntil = room.messages.findLast((message) => message.id !== undefined)?.timestamp;
    const fresh = messages
      .map((message) => this.receive({ ...message, room: name }))
      .filter((message) => message !== undefined);
    if (seenUntil === undefined) return [];
    return fresh.filter((message) => !message.own && message.timestamp >= seenUntil);
  }

  /** Counts are live facts: without a connection nobody knows them. */
  forgetPresence(): void {
    for (const room of this.all.values()) delete room.count;
  }

  snapshot(): StoredRoom[] {
    return [...this.all.values()].map(({ name, messages, unread }) => ({ name, unread, messages }));
  }

  /**
   * Rebuilds rooms from an earlier page of this tab. Returns own messages that still wait to be
   * sent, oldest first.
   */
  restore(stored: StoredRoom[]): Message[] {
    const waiting: Message[] = [];
    for (const { name, messages, unread } of stored) {
      const room = this.open(name);
      room.unread = Number(unread) || 0;
      for (const message of messages as Message[]) {
        if (message.state === "sending") markCut(message);
        if (message.id !== undefined) room.ids.add(message.id);
        room.messages.push(message);
        if (message.state === "queued") waiting.push(message);
      }
    }
    return waiting.sort((a, b) => a.timestamp - b.timestamp);
  }

  #place(room: Room, message: Message): void {
    let at = room.messages.length;
    while (at > 0 && goesBefore(message, room.messages[at - 1])) at -= 1;
    room.messages.splice(at, 0, message);
    if (room.messages.length <= MESSAGES_MAX) return;
    const forgotten = room.messages.shift();
    if (forgotten?.id !== undefined) room.ids.delete(forgotten.id);
  }
}

/**
 * The connection ended between sending and ack: only the reader can decide whether to send again.
 */
export function markCut(message: Message): void {
  message.state = "failed";
  message.problem = "The connection was lost before the server confirmed it.";
  message.uncertain = true;
}

function isWaitingFor(message: Message, content: string): boolean {
  const open = message.state === "sending" || message.uncertain === true;
  return message.own && open && message.id === undefined && message.content === content;
}

/**
 * Unconfirmed messages carry this device's clock, so they are only compared by position, never by
 * time.
 */
function goesBefore(message: Message, other: Message | undefined): boolean {
  if (!other || message.id === undefined) return false;
  if (other.id === undefined)
    return other.state !== "failed" || other.timestamp > message.timestamp;
  return other.timestamp > message.timestamp;
}
