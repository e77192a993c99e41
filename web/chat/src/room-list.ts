// The list of rooms at the side, and the same facts in the bar above the messages and in the tab's
// title.

import { byId, make, spoken } from "./dom.ts";
import { DEFAULT_ROOM } from "./protocol.ts";
import type { Room, Rooms } from "./rooms.ts";
import { plural } from "./text.ts";

const TITLE = "Sockeye chat";
const COUNT_SHOWN_MAX = 99;

export class RoomList {
  #list = byId<HTMLUListElement>("rooms");
  #elsewhere = byId("elsewhere");
  #roomName = byId("room-name");
  #presence = byId("presence");
  #presenceCount = byId("presence-count");
  #leave = byId<HTMLButtonElement>("leave");
  #draft = byId<HTMLTextAreaElement>("draft");
  #signature = "";

  constructor(show: (room: string, byPointer: boolean) => void) {
    this.#list.addEventListener("click", (event) => {
      const name = (event.target as Element).closest<HTMLElement>("[data-room]")?.dataset.room;
      if (name !== undefined) show(name, event.detail > 0);
    });
  }

  render(rooms: Rooms): void {
    const all = [...rooms.all.values()];
    const signature = JSON.stringify([
      rooms.active,
      all.map(({ name, unread, count }) => [name, unread, count]),
    ]);
    if (signature === this.#signature) return;
    this.#signature = signature;
    this.#renderList(all, rooms.active);
    this.#renderBar(rooms.current());
    const total = rooms.unreadTotal();
    this.#elsewhere.hidden = total === 0;
    document.title = total > 0 ? `(${total}) ${TITLE}` : TITLE;
  }

  #renderList(all: Room[], active: string): void {
    const focused =
      document.activeElement?.closest<HTMLElement>("#rooms [data-room]")?.dataset.room;
    const items = all.map((room) => roomItem(room, room.name === active));
    this.#list.replaceChildren(...items);
    if (focused !== undefined) this.#button(focused)?.focus();
  }

  #button(room: string): HTMLElement | undefined {
    return [...this.#list.querySelectorAll<HTMLElement>("[data-room]")].find(
      (item) => item.dataset.room === room,
    );
  }

  #renderBar(room: Room): void {
    this.#roomName.textContent = room.name;
    this.#draft.placeholder = `Message #${room.name}`;
    this.#presence.hidden = room.count === undefined;
    this.#presenceCount.textContent = `${(room.count ?? 0).toLocaleString()} online`;
    this.#leave.hidden = room.name === DEFAULT_ROOM;
  }
}

function roomItem(room: Room, active: boolean): HTMLLIElement {
  const item = make("li");
  const button = make("button", "room");
  button.type = "button";
  button.dataset.room = room.name;
  if (active) button.setAttribute("aria-current", "true");
  button.append(make("span", "hash", "#"), make("bdi", "room-label", room.name));
  if (room.unread > 0) {
    button.append(
      make(
        "span",
        "badge",
        room.unread > COUNT_SHOWN_MAX ? `${COUNT_SHOWN_MAX}+` : String(room.unread),
      ),
    );
    button.append(spoken(plural(room.unread, "unread message", "unread messages")));
  } else if (room.count !== undefined) {
    const count = make("span", "room-count", room.count.toLocaleString());
    count.title = `${room.count.toLocaleString()} online`;
    button.append(count);
  }
  item.append(button);
  return item;
}
