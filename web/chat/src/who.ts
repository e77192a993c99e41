// Who is in a room: asked for when somebody looks, kept up to date while it is shown.

import { byId, make } from "./dom.ts";
import { type Crowd, type Person, readCrowd } from "./protocol.ts";
import { hue, initials } from "./text.ts";

type Ask = (room: string) => Promise<unknown>;

export class WhoDialog {
  #dialog = byId<HTMLDialogElement>("who-dialog");
  #list = byId("who");
  #note = byId("who-note");
  #people = new Map<string, Person>();
  #room = "";
  #ask: Ask;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  open(room: string): void {
    this.#room = room;
    this.#show("Looking…");
    this.#dialog.showModal();
    this.refresh();
  }

  /** What is shown may have changed unheard. */
  async refresh(): Promise<void> {
    if (!this.#dialog.open) return;
    const room = this.#room;
    const answer = await this.#ask(room).catch(() => undefined);
    if (this.#room !== room) return;
    const crowd = readCrowd(answer);
    if (crowd) this.#counted(crowd, crowd.members);
    else this.#show("This server does not say who is here.");
  }

  heard(crowd: Crowd): void {
    if (this.#dialog.open && crowd.room === this.#room) this.#counted(crowd, crowd.joined);
  }

  /** Without names the room is too large for them. */
  #counted(crowd: Crowd, here: Person[] | undefined): void {
    if (!here || crowd.members) this.#people.clear();
    for (const person of here ?? []) this.#people.set(person.key, person);
    for (const person of crowd.left ?? []) this.#people.delete(person.key);
    this.#show(here ? "" : `${crowd.count.toLocaleString()} people: too many for a list.`);
  }

  #show(note: string): void {
    if (note) this.#people.clear();
    this.#note.textContent = note;
    const people = [...this.#people.values()].sort((a, b) => a.name.localeCompare(b.name));
    this.#list.replaceChildren(
      ...people.map(({ name }) => {
        const item = make("li");
        const avatar = make("span", `avatar hue-${hue(name)}`, initials(name));
        avatar.setAttribute("aria-hidden", "true");
        item.append(avatar, make("bdi", "", name));
        return item;
      }),
    );
  }
}
