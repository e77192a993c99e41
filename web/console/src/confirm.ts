// The question before an action. It names what the action is for.

import { byId } from "../../chat/src/dom.ts";
import type { Words } from "./controls.ts";

export interface Question {
  title: string;
  text: Words;
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
    byId("confirm-text").replaceChildren(...text);
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

  /** The login or another page came between. */
  withdraw(): void {
    if (this.#dialog.open) this.#dialog.close("no");
  }
}
