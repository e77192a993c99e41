// Puts the parts of the chat page together: rooms (what is known), outbox (what is unsent),
// connection, and the views.

import type { Connect } from "@sockeye/client";
import { Composer } from "./composer.ts";
import { Connection } from "./connection.ts";
import { Dialog } from "./dialogs.ts";
import { byId, setIcon } from "./dom.ts";
import { Drawer } from "./drawer.ts";
import { MessageList } from "./message-list.ts";
import { Notices } from "./notices.ts";
import { Outbox } from "./outbox.ts";
import { type ChatMessage, DEFAULT_ROOM, type History, type Presence } from "./protocol.ts";
import { RoomList } from "./room-list.ts";
import { type Message, Rooms } from "./rooms.ts";
import {
  loadLast,
  loadName,
  loadTab,
  saveLast,
  saveName,
  saveTab,
  type Visitor,
} from "./storage.ts";
import { Tabs } from "./tabs.ts";
import { hue, initials } from "./text.ts";
import { applyTheme, onSystemTheme, toggleTheme } from "./theme.ts";
import { TypingLine } from "./typing.ts";
import { WhoDialog } from "./who.ts";

/** Given by the stock bundle that index.html loads from the server. */
declare const io: Connect | undefined;

const SAVE_DELAY_MS = 300;
const ROOM_CHARS_MAX = 48;

class Chat {
  #rooms: Rooms;
  #outbox: Outbox;
  #connection = this.#connect();
  #notices = new Notices(() => this.#connection.retryNow());
  #roomList = new RoomList((room, byPointer) => {
    this.#show(room);
    if (byPointer) this.#readyToWrite();
  });
  #messageList = new MessageList({
    retry: (message) => this.#retry(message),
    discard: (message) => this.#discard(message),
    reachedEnd: () => this.#markRead(),
  });
  #typing = new TypingLine((room) => this.#connection.typing({ room, name: this.#name }));
  #composer = new Composer(
    (content) => this.#write(content),
    () => this.#typing.typed(),
  );
  #drawer = new Drawer();
  #nameDialog = new Dialog("name-dialog");
  #roomDialog = new Dialog("room-dialog");
  #who = new WhoDialog((room) => this.#connection.who(room));
  #name = loadName();
  #tabs = new Tabs(() => this.#name);
  #online = false;
  #renderPending = false;
  #saveTimer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    const tab = loadTab();
    this.#rooms = new Rooms(tab?.ownIds);
    this.#outbox = new Outbox({
      send: (message) => this.#connection.send(message.content, message.room),
      accepted: (message, id, timestamp) => this.#rooms.confirm(message, id, timestamp),
    });
    for (const message of this.#rooms.restore(tab?.rooms ?? [])) this.#outbox.push(message);
    if (tab && this.#rooms.all.has(tab.active)) this.#rooms.active = tab.active;
    this.#bindControls();
    this.#show(roomInAddress() ?? this.#rooms.active);
  }

  /** Asks for the name first in a new tab; offers the last one unless another tab has it. */
  start(): void {
    // Without the client there is nothing to ask for: loading.ts says so.
    if (typeof io === "undefined") return;
    if (this.#name !== "") {
      this.#arrive();
      return;
    }
    const last = loadLast();
    this.#nameDialog.ask(last.name, (name) => this.#arrived(name, last), true);
    this.#tabs.ask((taken) => this.#nameDialog.withdraw(taken));
  }

  /** Who comes back finds the rooms of the last time; anybody else begins with the first. */
  #arrived(name: string, last: Visitor): void {
    const rooms = name === last.name ? last.rooms : [];
    this.#rooms.restore(rooms.map((room) => ({ name: room, messages: [], unread: 0 })));
    this.#named(name);
  }

  #connect(): Connection {
    // The client's script may be missing: then nobody gets so far as to give a name.
    const connect: Connect = (...args) => (io as Connect)(...args);
    return new Connection(connect, {
      link: (link) => this.#notices.link(link),
      online: (id) => this.#connected(id),
      offline: () => this.#disconnected(),
      queue: () => this.#changed(),
      message: (message) => this.#received(message),
      presence: (presence) => this.#present(presence),
      crowd: (crowd) => this.#who.heard(crowd),
      history: (history) => this.#remembered(history),
      typing: (typing) => this.#typing.heard(typing),
      problem: (text) => this.#notices.toast(text),
    });
  }

  #arrive(): void {
    this.#showName();
    this.#connection.open(this.#name);
    this.#readyToWrite();
  }

  /** Not on touch screens, where focus would pull up the keyboard over the messages. */
  #readyToWrite(): void {
    if (matchMedia("(pointer: fine)").matches) this.#composer.focus();
  }

  #bindControls(): void {
    byId("rename").addEventListener("click", () =>
      this.#nameDialog.ask(this.#name, (name) => this.#named(name)),
    );
    byId("add-room").addEventListener("click", () =>
      this.#roomDialog.ask("", (room) => {
        this.#join(room);
        this.#readyToWrite();
      }),
    );
    byId("presence").addEventListener("click", () => this.#who.open(this.#rooms.active));
    byId("leave").addEventListener("click", () => this.#leave());
    byId("copy-link").addEventListener("click", () => this.#copyLink());
    byId("theme").addEventListener("click", () => showTheme(toggleTheme()));
    onSystemTheme(() => showTheme(applyTheme()));
    showTheme(applyTheme());
    window.addEventListener("hashchange", () => this.#join(roomInAddress() ?? this.#rooms.active));
    window.addEventListener("pagehide", () => this.#save());
    window.addEventListener("keydown", (event) => this.#shortcut(event));
    document.addEventListener("visibilitychange", () => this.#markRead());
  }

  #shortcut(event: KeyboardEvent): void {
    if (!event.altKey || (event.key !== "ArrowUp" && event.key !== "ArrowDown")) return;
    const names = [...this.#rooms.all.keys()];
    const step = event.key === "ArrowDown" ? 1 : names.length - 1;
    const next = names[(names.indexOf(this.#rooms.active) + step) % names.length];
    if (next === undefined) return;
    event.preventDefault();
    this.#show(next);
  }

  #named(name: string): void {
    this.#name = name;
    saveName(name);
    this.#arrive();
  }

  #showName(): void {
    byId("my-name").textContent = this.#name;
    const avatar = byId("my-avatar");
    avatar.textContent = initials(this.#name);
    avatar.className = `avatar hue-${hue(this.#name)}`;
  }

  #connected(id: string): void {
    this.#online = true;
    this.#rooms.addOwnId(id);
    for (const room of this.#rooms.all.keys())
      if (room !== DEFAULT_ROOM) this.#connection.join(room);
    // The joins travel ahead of the queue, which the client sends after this.
    void this.#who.refresh();
  }

  #disconnected(): void {
    this.#online = false;
    this.#rooms.forgetPresence();
    this.#changed();
  }

  #received(incoming: ChatMessage): void {
    this.#typing.done(incoming.name);
    const message = this.#rooms.receive(incoming);
    if (message && !message.own && !this.#isBeingRead(message.room))
      this.#rooms.countUnread(message);
    this.#changed();
  }

  #remembered({ room, messages }: History): void {
    const missed = this.#rooms.receiveHistory(room, messages);
    if (!this.#isBeingRead(room)) for (const message of missed) this.#rooms.countUnread(message);
    this.#changed();
  }

  #present({ room, count }: Presence): void {
    const known = this.#rooms.all.get(room);
    if (known) known.count = count;
    this.#changed();
  }

  #isBeingRead(room: string): boolean {
    return room === this.#rooms.active && !document.hidden && this.#messageList.isAtEnd();
  }

  #markRead(): void {
    if (!this.#isBeingRead(this.#rooms.active)) return;
    this.#rooms.markRead(this.#rooms.current());
    this.#changed();
  }

  #write(content: string): void {
    this.#outbox.push(this.#rooms.write(content, this.#rooms.active, this.#name));
  }

  #retry(message: Message): void {
    this.#rooms.rewrite(message);
    this.#outbox.push(message);
    this.#messageList.scrollToEnd();
  }

  #discard(message: Message): void {
    this.#rooms.discard(message);
    this.#changed();
    this.#composer.focus();
  }

  #join(room: string): void {
    if (!this.#rooms.all.has(room)) {
      this.#rooms.open(room);
      this.#connection.join(room);
    }
    this.#show(room);
  }

  #leave(): void {
    const room = this.#rooms.active;
    if (room === DEFAULT_ROOM) return;
    this.#outbox.removeRoom(room);
    this.#rooms.close(room);
    this.#connection.leave(room);
    this.#show(DEFAULT_ROOM);
  }

  #show(room: string): void {
    this.#rooms.show(room);
    const hash = room === DEFAULT_ROOM ? "" : `#/${encodeURIComponent(room)}`;
    history.replaceState(null, "", `${location.pathname}${location.search}${hash}`);
    this.#composer.show(room);
    this.#typing.show(room);
    this.#drawer.close();
    this.#changed();
  }

  async #copyLink(): Promise<void> {
    try {
      await navigator.clipboard.writeText(location.href);
      this.#notices.toast("Link copied.");
    } catch {
      this.#notices.toast(`Share this address: ${location.href}`);
    }
  }

  /** One pass over the views per frame, however many events came. Hidden tabs have no frames. */
  #changed(): void {
    if (this.#renderPending) return;
    this.#renderPending = true;
    if (document.hidden) setTimeout(() => this.#render(), 50);
    else requestAnimationFrame(() => this.#render());
  }

  #render(): void {
    this.#renderPending = false;
    this.#roomList.render(this.#rooms);
    this.#messageList.render(this.#rooms.current());
    const { length, dropped } = this.#connection.queue;
    this.#notices.queue(length, dropped, this.#online);
    clearTimeout(this.#saveTimer);
    this.#saveTimer = setTimeout(() => this.#save(), SAVE_DELAY_MS);
  }

  #save(): void {
    saveTab({
      rooms: this.#rooms.snapshot(),
      active: this.#rooms.active,
      ownIds: [...this.#rooms.ownIds],
    });
    if (this.#name !== "") saveLast({ name: this.#name, rooms: [...this.#rooms.all.keys()] });
  }
}

/** `#/name` in the address is a link to a room. */
function roomInAddress(): string | undefined {
  if (!location.hash.startsWith("#/")) return undefined;
  try {
    const room = decodeURIComponent(location.hash.slice(2)).trim();
    return room === "" ? undefined : room.slice(0, ROOM_CHARS_MAX);
  } catch {
    return undefined;
  }
}

function showTheme(theme: "light" | "dark"): void {
  const button = byId("theme");
  setIcon(button, theme === "dark" ? "sun" : "moon");
  const label = theme === "dark" ? "Use the light theme" : "Use the dark theme";
  button.setAttribute("aria-label", label);
  button.title = label;
}

new Chat().start();
