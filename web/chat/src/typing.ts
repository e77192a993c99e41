// The people who write in the open room, told to others at most every two seconds and forgotten after four.

import { byId } from "./dom.ts";
import { DEFAULT_ROOM, type Typing } from "./protocol.ts";

const TELL_MS = 2000;
const FORGET_MS = 4000;
const NAMES_MAX = 3;

export class TypingLine {
  #line = byId("typing");
  #tell: (room: string) => void;
  #told = 0;
  #room = DEFAULT_ROOM;
  #writers = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(tell: (room: string) => void) {
    this.#tell = tell;
  }

  /** Something was typed here. */
  typed(): void {
    if (Date.now() - this.#told < TELL_MS) return;
    this.#told = Date.now();
    this.#tell(this.#room);
  }

  heard({ room, name }: Typing): void {
    if (room !== this.#room || name === "") return;
    this.done(name);
    this.#writers.set(
      name,
      setTimeout(() => this.done(name), FORGET_MS),
    );
    this.#render();
  }

  /** The message is there, or none came. */
  done(name = ""): void {
    clearTimeout(this.#writers.get(name));
    if (this.#writers.delete(name)) this.#render();
  }

  show(room: string): void {
    if (room === this.#room) return;
    this.#room = room;
    for (const name of [...this.#writers.keys()]) this.done(name);
  }

  #render(): void {
    const names = [...this.#writers.keys()];
    const last = names.length > 1 ? names.pop() : undefined;
    const who = last === undefined ? names.join() : `${names.join(", ")} and ${last}`;
    const many = names.length >= NAMES_MAX;
    const verb = last === undefined ? "is" : "are";
    this.#line.textContent = who === "" ? "" : `${many ? "Several people" : who} ${verb} typing…`;
  }
}
