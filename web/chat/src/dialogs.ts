// The two questions the page asks: your name, and the name of a room.

import { byId } from "./dom.ts";

export class Dialog {
  #dialog: HTMLDialogElement;
  #input: HTMLInputElement;
  #cancel: HTMLButtonElement;
  #answered: (value: string) => void = () => {};
  #mustAnswer = false;

  constructor(id: string) {
    this.#dialog = byId<HTMLDialogElement>(id);
    this.#input = this.#dialog.querySelector("input") as HTMLInputElement;
    this.#cancel = this.#dialog.querySelector("[data-cancel]") as HTMLButtonElement;
    this.#cancel.addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("cancel", (event) => {
      if (this.#mustAnswer) event.preventDefault();
    });
    this.#dialog.addEventListener("submit", (event) => this.#submit(event));
    this.#input.addEventListener("input", () => this.#input.setCustomValidity(""));
  }

  /** Without `mustAnswer` the question can be put away unanswered. */
  ask(value: string, answered: (value: string) => void, mustAnswer = false): void {
    this.#answered = answered;
    this.#mustAnswer = mustAnswer;
    this.#cancel.hidden = mustAnswer;
    this.#input.value = value;
    this.#dialog.showModal();
    this.#input.select();
  }

  /** Takes back what was offered, unless something else stands there already. */
  withdraw(value: string): void {
    if (this.#input.value === value) this.#input.value = "";
  }

  #submit(event: SubmitEvent): void {
    event.preventDefault();
    const value = this.#input.value.trim();
    if (value === "") {
      this.#input.setCustomValidity("Please write something other than spaces.");
      this.#input.reportValidity();
      return;
    }
    // Closed first: closing gives the focus back, and the answer may want it elsewhere.
    this.#dialog.close();
    this.#answered(value);
  }
}
