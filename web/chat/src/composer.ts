// The box one writes in: a draft per room, Enter to send, and the limit of the chat profile before
// the server says it.

import { byId } from "./dom.ts";
import { CONTENT_UNITS_MAX } from "./protocol.ts";

/** From here on the reader sees how much is left. */
const SHOW_LEFT_BELOW = 100;

export class Composer {
  #form = byId<HTMLFormElement>("composer");
  #draft = byId<HTMLTextAreaElement>("draft");
  #left = byId("draft-left");
  #hint = byId("draft-hint");
  #send = byId<HTMLButtonElement>("send");
  #drafts = new Map<string, string>();
  #room = "";

  constructor(submit: (content: string) => void, typed: () => void) {
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit(submit);
    });
    this.#draft.addEventListener("input", () => {
      this.#changed();
      if (!this.#send.disabled) typed();
    });
    this.#draft.addEventListener("keydown", (event) => {
      // Enter that ends an input method's composition belongs to the input method.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#form.requestSubmit();
    });
    this.#changed();
  }

  show(room: string): void {
    if (room === this.#room) return;
    this.#drafts.set(this.#room, this.#draft.value);
    this.#room = room;
    this.#draft.value = this.#drafts.get(room) ?? "";
    this.#changed();
  }

  focus(): void {
    this.#draft.focus();
  }

  #submit(submit: (content: string) => void): void {
    const content = this.#draft.value.trim();
    const length = content.length;
    if (length === 0) return;
    if (length > CONTENT_UNITS_MAX) {
      const [is, max] = [length.toLocaleString(), CONTENT_UNITS_MAX.toLocaleString()];
      this.#hint.textContent = `${is} characters are too many: a message holds at most ${max}.`;
      return;
    }
    this.#draft.value = "";
    this.#changed();
    submit(content);
  }

  #changed(): void {
    const left = CONTENT_UNITS_MAX - this.#draft.value.trim().length;
    this.#hint.textContent = "";
    this.#left.hidden = left >= SHOW_LEFT_BELOW;
    this.#left.textContent = left.toLocaleString();
    this.#left.classList.toggle("over", left < 0);
    this.#send.disabled = left === CONTENT_UNITS_MAX;
    this.#grow();
  }

  /** As tall as its text; style.css sets the bound. */
  #grow(): void {
    this.#draft.style.height = "auto";
    this.#draft.style.height = `${this.#draft.scrollHeight}px`;
  }
}
