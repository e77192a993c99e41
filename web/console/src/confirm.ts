// The question before an action. It names what the action is for.

import { byId, make } from "../../chat/src/dom.ts";

export interface Question {
  title: string;
  /** Names of rooms, users and sockets among them stay text. */
  text: string;
  yes: string;
}

export class Confirm {
  #dialog = byId<HTMLDialogElement>("confirm");
  #yes = byId<HTMLButtonElement>("confirm-yes");

  constructor() {
    byId("confirm-no").addEventListener("click", () => this.#dialog.close("no"));
    this.#yes.addEventListener("click", () => this.#dialog.close("yes"));
  }

  async ask({ title, text, yes }: Question): Promise<boolean> {
    byId("confirm-title").textContent = title;
    byId("confirm-text").replaceChildren(make("bdi", "", text));
    this.#yes.textContent = yes;
    this.#dialog.returnValue = "no";
    const closed = new Promise((resolve) =>
      this.#dialog.addEventListener("close", resolve, { once: true }),
    );
    this.#dialog.showModal();
    byId("confirm-no").focus();
    await closed;
    return this.#dialog.returnValue === "yes";
  }

  /** The login came between. */
  withdraw(): void {
    if (this.#dialog.open) this.#dialog.close("no");
  }
}
