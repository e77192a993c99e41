// Large events: the gateway sends a reference in the place of an event, and the body is fetched
// from there.

import { member } from "./delay.ts";

/** The event by which a gateway says that a body is elsewhere. */
export const LARGE = "large_message";

/** What a gateway says of a body that it stored. */
export interface LargeMessage {
  type: typeof LARGE;
  key: string;
  /** Good for minutes. A path means the gateway's own host. */
  url: string;
  /** Bytes. */
  size: number;
  /** Name of the event. */
  event: string;
  /** Only of uploads. */
  content_type?: string;
  name?: string;
}

export interface LargeOptions {
  /** Larger bodies are not fetched: the listener gets the reference. */
  maxBytes: number;
  timeoutMs: number;
  /** Bodies are fetched from the gateway's own origin, and from these (`large.public_url`). */
  origins: string[];
}

/** How bodies of events with attachments are written. */
const PARTS = "application/vnd.sockeye.parts";
const ATTEMPTS = 3;
const RETRY_MS = 500;

/** The reference, if an event is one. */
export function largeMessage(event: string, args: unknown[]): LargeMessage | undefined {
  const [said] = args;
  if (event !== LARGE || member(said, "type") !== LARGE) return undefined;
  const texts = ["key", "url", "event"].map((name) => member(said, name));
  const fits = texts.every((text) => typeof text === "string");
  return fits && typeof member(said, "size") === "number" ? (said as LargeMessage) : undefined;
}

/** A file of a client's is for the application to fetch, or for its user. */
export function isFile({ content_type }: LargeMessage): boolean {
  return content_type !== undefined && content_type !== PARTS;
}

/** The arguments of the event. */
export async function fetchArgs(
  message: LargeMessage,
  base: string | undefined,
  { maxBytes, timeoutMs, origins }: LargeOptions,
): Promise<unknown[]> {
  const own = new URL(base ?? globalThis.location?.href);
  const url = new URL(message.url, own);
  if (url.origin !== own.origin && !origins.includes(url.origin)) {
    throw new Error(`bodies are not fetched from ${url.origin}: name it in large.origins`);
  }
  const signal = AbortSignal.timeout(timeoutMs);
  const response = await get(url, signal);
  const length = Number(response.headers.get("content-length") ?? message.size);
  if (length > maxBytes) {
    await response.body?.cancel();
    throw new Error(`the body has more than ${maxBytes} bytes`);
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  const type = response.headers.get("content-type");
  return type === PARTS ? readParts(bytes) : list(parse(bytes));
}

async function get(url: URL, signal: AbortSignal): Promise<Response> {
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch(url, {
      signal,
      credentials: "omit",
      referrerPolicy: "no-referrer",
    });
    if (response.ok) return response;
    await response.body?.cancel();
    // Its place is taken, or its store away: both may be over soon.
    const again = response.status === 503 && attempt < ATTEMPTS;
    if (!again) throw new Error(`the gateway answered ${response.status}`);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS * attempt * (1 + Math.random())));
  }
}

function parse(bytes: Uint8Array): unknown {
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
}

function list(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new Error("the body is no list");
  return value;
}

/** A line with lengths, then the arguments, then the attachments that placeholders stand for. */
function readParts(bytes: Uint8Array): unknown[] {
  const end = bytes.indexOf(10);
  const lengths = list(parse(bytes.subarray(0, Math.max(end, 0)))).map(Number);
  const parts: Uint8Array[] = [];
  let at = end + 1;
  for (const length of lengths) {
    parts.push(bytes.subarray(at, at + length));
    at += length;
  }
  const [args, ...attachments] = parts;
  if (!args || at !== bytes.length || lengths.some((length) => !(length >= 0))) {
    throw new Error("the body has other lengths");
  }
  return list(parse(args)).map((value) => filled(value, attachments));
}

/** What applications of the stock client get: a Buffer in Node, an ArrayBuffer in browsers. */
function attachment(bytes: Uint8Array | undefined): unknown {
  if (bytes === undefined) throw new Error("an attachment is missing");
  const copy = bytes.slice();
  const { Buffer } = globalThis as { Buffer?: { from(bytes: ArrayBuffer): unknown } };
  return Buffer ? Buffer.from(copy.buffer) : copy.buffer;
}

function filled(value: unknown, attachments: Uint8Array[]): unknown {
  if (Array.isArray(value)) return value.map((one) => filled(one, attachments));
  if (typeof value !== "object" || value === null) return value;
  const { _placeholder, num } = value as { _placeholder?: unknown; num?: unknown };
  if (_placeholder === true && typeof num === "number") return attachment(attachments[num]);
  const members = Object.entries(value).map(([name, one]) => [name, filled(one, attachments)]);
  return Object.fromEntries(members);
}
