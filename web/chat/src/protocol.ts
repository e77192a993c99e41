// The chat profile's events as the server sends them, and the checks that turn untrusted JSON into
// them.

import { displayName } from "./text.ts";

/** In UTF-16 units, as the gateway counts them: a fish is two. */
export const CONTENT_UNITS_MAX = 1000;
export const NAME_CHARS_MAX = 32;
export const DEFAULT_ROOM = "global";

/** One message as broadcast to a room, sender included. `sender` is the sender's socket id. */
export interface ChatMessage {
  id: string;
  sender: string;
  name?: string;
  content: string;
  timestamp: number;
  room: string;
}

export interface Presence {
  room: string;
  count: number;
}

/** Sent by the page itself; the server passes it on to the rooms of its sender. */
export interface Typing {
  room: string;
  name: string;
}

/** Somebody in a room, and what tells them from others. */
export interface Person {
  key: string;
  name: string;
}

/** The members of a room, or who came and went. Names are left out where there are too many. */
export interface Crowd {
  room: string;
  count: number;
  members?: Person[];
  joined?: Person[];
  left?: Person[];
}

export interface History {
  room: string;
  messages: ChatMessage[];
}

export type Ack = { id: string; timestamp: number } | { error: string };

type Fields = Record<string, unknown>;

function fields(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null ? (value as Fields) : undefined;
}

export function readMessage(value: unknown): ChatMessage | undefined {
  const raw = fields(value);
  if (!raw || typeof raw.content !== "string" || typeof raw.sender !== "string") return undefined;
  if (typeof raw.id !== "string" && typeof raw.id !== "number") return undefined;
  const message: ChatMessage = {
    id: String(raw.id),
    sender: raw.sender,
    content: raw.content,
    timestamp: readTime(raw.timestamp),
    room: typeof raw.room === "string" ? raw.room : DEFAULT_ROOM,
  };
  if (typeof raw.name === "string" && raw.name !== "") message.name = raw.name;
  return message;
}

export function readPresence(value: unknown): Presence | undefined {
  const raw = fields(value);
  if (!raw || typeof raw.room !== "string" || typeof raw.count !== "number") return undefined;
  return { room: raw.room, count: raw.count };
}

export function readCrowd(value: unknown): Crowd | undefined {
  const crowd: Crowd | undefined = readPresence(value);
  for (const part of ["members", "joined", "left"] as const) {
    const list = fields(value)?.[part];
    if (crowd && Array.isArray(list)) crowd[part] = list.map(readPerson);
  }
  return crowd;
}

function readPerson(value: unknown): Person {
  const raw = fields(value);
  const key = String(raw?.user ?? raw?.id);
  const name = fields(raw?.info)?.name ?? raw?.user ?? displayName(undefined, key);
  return { key, name: String(name).slice(0, NAME_CHARS_MAX) };
}

export function readTyping(value: unknown): Typing | undefined {
  const raw = fields(value);
  if (!raw || typeof raw.room !== "string" || typeof raw.name !== "string") return undefined;
  return { room: raw.room, name: raw.name.slice(0, NAME_CHARS_MAX) };
}

export function readHistory(value: unknown): History | undefined {
  const raw = fields(value);
  if (!raw || typeof raw.room !== "string" || !Array.isArray(raw.messages)) return undefined;
  const messages = raw.messages.map(readMessage).filter((message) => message !== undefined);
  return { room: raw.room, messages };
}

export function readAck(value: unknown): Ack {
  const raw = fields(value);
  if (raw && (typeof raw.id === "string" || typeof raw.id === "number")) {
    return { id: String(raw.id), timestamp: readTime(raw.timestamp) };
  }
  return { error: raw && typeof raw.error === "string" ? raw.error : "The server gave no reason" };
}

/** The text of an `error` or `SERVER_SHUTDOWN` event. */
export function readText(value: unknown, fallback: string): string {
  const raw = fields(value);
  return raw && typeof raw.message === "string" && raw.message !== "" ? raw.message : fallback;
}

function readTime(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : Date.now();
}
