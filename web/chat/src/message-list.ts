// The message log of the open room. Rows are kept by key and only rebuilt when what they show
// changed, so that the reader's selection, focus and scroll position survive each new message.

import { byId, icon, make, spoken } from "./dom.ts";
import type { Message, MessageState, Room } from "./rooms.ts";
import {
  dayKey,
  dayName,
  displayName,
  exactTime,
  hue,
  initials,
  pieces,
  plural,
  timeOfDay,
} from "./text.ts";

export interface MessageListEvents {
  retry(message: Message): void;
  discard(message: Message): void;
  reachedEnd(): void;
}

interface Row {
  key: string;
  /** Everything the row shows, as text: equal signature means nothing to rebuild. */
  signature: string;
  build(): HTMLLIElement;
}

const STATE_NAMES: Record<MessageState, string> = {
  queued: "Queued, will be sent when connected",
  sending: "Sending",
  sent: "Sent",
  failed: "Not sent",
};

const GROUP_GAP_MS = 5 * 60_000;
const NEAR_END_PX = 90;

export class MessageList {
  #log = byId<HTMLOListElement>("log");
  #scroller = byId("scroller");
  #empty = byId("empty");
  #newer = byId<HTMLButtonElement>("newer");
  #newerText = byId("newer-text");
  #rows = new Map<string, { element: HTMLLIElement; signature: string }>();
  #events: MessageListEvents;
  #room = "";
  #lastKey = "";
  #unseen = 0;

  constructor(events: MessageListEvents) {
    this.#events = events;
    this.#newer.addEventListener("click", () => this.scrollToEnd());
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#keepEnd()).observe(this.#scroller);
  }

  isAtEnd(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  scrollToEnd(): void {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#showNewer(0);
  }

  render(room: Room): void {
    const opened = room.name !== this.#room;
    const follow = opened || this.isAtEnd();
    const tail = room.messages.at(-1);
    if (opened) this.#open(room);
    this.#reconcile(this.#plan(room));
    this.#empty.hidden = room.messages.length > 0;
    const grew = tail !== undefined && tail.key !== this.#lastKey;
    this.#lastKey = tail?.key ?? "";
    if (follow || (grew && tail.own && tail.state !== "sent")) this.#settleScroll(opened, room);
    else if (grew) this.#showNewer(this.#unseen + 1);
    if (opened) requestAnimationFrame(() => this.#log.removeAttribute("aria-busy"));
  }

  /** Another room is another log: nothing of it should be read aloud as news. */
  #open(room: Room): void {
    this.#log.setAttribute("aria-busy", "true");
    this.#room = room.name;
    this.#rows.clear();
    this.#log.replaceChildren();
    this.#showNewer(0);
  }

  #settleScroll(opened: boolean, room: Room): void {
    this.scrollToEnd();
    const divider =
      opened && room.firstUnread !== undefined ? this.#rows.get("unread")?.element : undefined;
    divider?.scrollIntoView({ block: "center" });
  }

  #scrolled(): void {
    if (!this.isAtEnd()) return;
    this.#showNewer(0);
    this.#events.reachedEnd();
  }

  /** A phone's keyboard shrinks the log: whoever was at its end stays there. */
  #keepEnd(): void {
    if (this.#newer.hidden && this.#unseen === 0 && this.#wasAtEnd) this.scrollToEnd();
    this.#wasAtEnd = this.isAtEnd();
  }
  #wasAtEnd = true;

  #showNewer(count: number): void {
    this.#unseen = count;
    this.#newer.hidden = count === 0;
    this.#newerText.textContent = plural(count, "new message", "new messages");
  }

  #plan(room: Room): Row[] {
    const rows: Row[] = [];
    let previous: Message | undefined;
    for (const [index, message] of room.messages.entries()) {
      const day = dayKey(message.timestamp);
      const newDay = !previous || dayKey(previous.timestamp) !== day;
      if (newDay) rows.push(dayRow(day, message.timestamp));
      if (message.key === room.firstUnread) rows.push(unreadRow());
      const first = newDay || message.key === room.firstUnread || !sameGroup(previous, message);
      const next = room.messages[index + 1];
      const last = !next || next.key === room.firstUnread || !sameGroup(message, next);
      rows.push(this.#messageRow(message, first, last));
      previous = message;
    }
    return rows;
  }

  #messageRow(message: Message, first: boolean, last: boolean): Row {
    const { key, state, timestamp, problem = "", id = "" } = message;
    const signature = [state, timestamp, first, last, problem, id].join("|");
    return { key, signature, build: () => this.#build(message, first, last) };
  }

  #reconcile(rows: Row[]): void {
    const wanted = new Set(rows.map((row) => row.key));
    for (const [key, { element }] of this.#rows) {
      if (wanted.has(key)) continue;
      element.remove();
      this.#rows.delete(key);
    }
    let cursor = this.#log.firstElementChild;
    for (const row of rows) {
      const element = this.#element(row);
      if (element === cursor) cursor = cursor.nextElementSibling;
      else this.#log.insertBefore(element, cursor);
    }
  }

  #element(row: Row): HTMLLIElement {
    const known = this.#rows.get(row.key);
    if (known?.signature === row.signature) return known.element;
    const element = row.build();
    if (known) {
      // In place: a replaced row would be announced as a new message.
      known.element.className = element.className;
      Object.assign(known.element.dataset, element.dataset);
      known.element.replaceChildren(...element.childNodes);
      known.signature = row.signature;
      return known.element;
    }
    this.#rows.set(row.key, { element, signature: row.signature });
    return element;
  }

  #build(message: Message, first: boolean, last: boolean): HTMLLIElement {
    const row = make(
      "li",
      `message${message.own ? " own" : ""}${first ? " first" : ""}${last ? " last" : ""}`,
    );
    row.dataset.state = message.state;
    row.dataset.id = message.id ?? "";
    const author = displayName(message.name, message.sender);
    if (!message.own) row.append(avatar(author, first));
    const body = make("div", "body");
    if (first) body.append(authorLine(author, message.own));
    body.append(bubble(message));
    if (message.state === "failed") body.append(this.#problem(message));
    row.append(body);
    return row;
  }

  #problem(message: Message): HTMLElement {
    const line = make("p", "problem", message.problem ?? "Not sent.");
    const retry = make("button", "text-button", "Retry");
    const discard = make("button", "text-button", "Delete");
    retry.type = discard.type = "button";
    retry.addEventListener("click", () => this.#events.retry(message));
    discard.addEventListener("click", () => this.#events.discard(message));
    line.append(" ", retry, " ", discard);
    return line;
  }
}

function dayRow(day: string, timestamp: number): Row {
  const name = dayName(timestamp);
  return { key: `day ${day}`, signature: name, build: () => labelRow("day", name) };
}

function unreadRow(): Row {
  return { key: "unread", signature: "", build: () => labelRow("unread", "New") };
}

function labelRow(kind: string, text: string): HTMLLIElement {
  const row = make("li", kind);
  row.append(make("span", "", text));
  return row;
}

function sameGroup(a: Message | undefined, b: Message): boolean {
  return (
    a !== undefined &&
    a.own === b.own &&
    (a.own || (a.sender === b.sender && a.name === b.name)) &&
    Math.abs(b.timestamp - a.timestamp) < GROUP_GAP_MS &&
    dayKey(a.timestamp) === dayKey(b.timestamp)
  );
}

function avatar(name: string, visible: boolean): HTMLElement {
  const circle = make(
    "span",
    visible ? `avatar hue-${hue(name)}` : "avatar-gap",
    visible ? initials(name) : undefined,
  );
  circle.setAttribute("aria-hidden", "true");
  return circle;
}

function authorLine(author: string, own: boolean): HTMLElement {
  if (own) return spoken("You");
  const line = make("p", `author hue-${hue(author)}`);
  line.append(make("bdi", "", author));
  return line;
}

function bubble(message: Message): HTMLElement {
  const box = make("div", "bubble");
  const content = make("div", "content");
  content.dir = "auto";
  content.append(...pieces(message.content).map(pieceNode));
  const meta = make("div", "meta");
  const shown = timeOfDay(message.timestamp);
  // For the style sheet, which leaves room for it.
  content.dataset.time = shown;
  const time = make("time", "", shown);
  time.dateTime = new Date(message.timestamp).toISOString();
  time.title = exactTime(message.timestamp);
  meta.append(time);
  if (message.own) meta.append(stateMark(message.state));
  box.append(content, meta);
  return box;
}

function pieceNode({ text, href }: { text: string; href?: string }): Node {
  if (href === undefined) return document.createTextNode(text);
  const link = make("a", "", text);
  link.href = href;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  return link;
}

function stateMark(state: MessageState): HTMLElement {
  const mark = make("span", "state");
  mark.title = STATE_NAMES[state];
  mark.append(icon(state), spoken(STATE_NAMES[state]));
  return mark;
}
