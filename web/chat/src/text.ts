// How times, days, names and links are written for the reader.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayAndMonth = new Intl.DateTimeFormat(undefined, {
  weekday: "long",
  day: "numeric",
  month: "long",
});
const fullDay = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "long",
  year: "numeric",
});
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

const HUES = 12;

export function timeOfDay(timestamp: number): string {
  return clock.format(timestamp);
}

export function exactTime(timestamp: number): string {
  return exact.format(timestamp);
}

/** A text that is equal for, and only for, moments of the same local day. */
export function dayKey(timestamp: number): string {
  const date = new Date(timestamp);
  return `${date.getFullYear()}-${date.getMonth() + 1}-${date.getDate()}`;
}

export function dayName(timestamp: number, now = Date.now()): string {
  const key = dayKey(timestamp);
  if (key === dayKey(now)) return "Today";
  const yesterday = new Date(now);
  yesterday.setDate(yesterday.getDate() - 1);
  if (key === dayKey(yesterday.getTime())) return "Yesterday";
  const sameYear = new Date(timestamp).getFullYear() === new Date(now).getFullYear();
  return (sameYear ? dayAndMonth : fullDay).format(timestamp);
}

export function displayName(name: string | undefined, sender: string): string {
  return name ?? `Guest ${sender.slice(-4)}`;
}

export function initials(name: string): string {
  const words = name.trim().split(/\s+/);
  const first = [...(words[0] ?? "?")][0] ?? "?";
  const last = words.length > 1 ? ([...(words.at(-1) ?? "")][0] ?? "") : "";
  return (first + last).toUpperCase();
}

/** Index of the colour for a person; the same on every device. */
export function hue(name: string): number {
  // FNV-1a, then its high bits: names that differ in one letter should differ in colour.
  let hash = 0x811c9dc5;
  for (const char of name) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
  return (hash >>> 16) % HUES;
}

export function plural(count: number, one: string, many: string): string {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}

export interface Piece {
  text: string;
  /** Only ever an http or https address. */
  href?: string;
}

/**
 * Splits a message into plain text and web addresses, without the punctuation that ends a
 * sentence.
 */
export function pieces(content: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const match of content.matchAll(/\bhttps?:\/\/[^\s<>"']+[^\s<>"'.,;:!?)\]}]/gi)) {
    if (match.index > from) found.push({ text: content.slice(from, match.index) });
    found.push({ text: match[0], href: match[0] });
    from = match.index + match[0].length;
  }
  if (from < content.length) found.push({ text: content.slice(from) });
  return found;
}
