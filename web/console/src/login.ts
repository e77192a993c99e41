// The door: asks for an API key. The node keeps it in a cookie that scripts cannot read.

import { byId } from "../../chat/src/dom.ts";
import { type Api, Problem } from "./api.ts";

export class LoginForm {
  #input = byId<HTMLInputElement>("key");
  #problem = byId("login-problem");
  #button = byId<HTMLButtonElement>("enter");

  constructor(
    readonly api: Api,
    readonly entered: () => void,
  ) {
    byId("login-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#enter();
    });
  }

  show(why = ""): void {
    byId("login").hidden = false;
    this.#say(why);
    this.#input.value = "";
    this.#input.focus();
    document.title = "Sockeye console";
  }

  hide(): void {
    byId("login").hidden = true;
    this.#input.value = "";
  }

  async #enter(): Promise<void> {
    this.#button.disabled = true;
    try {
      await this.api.enter(this.#input.value.trim());
      this.#say("");
      this.entered();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.#say(`${error.title}: ${error.detail}`);
      this.#input.select();
    } finally {
      this.#button.disabled = false;
    }
  }

  #say(text: string): void {
    this.#problem.textContent = text;
    this.#input.setAttribute("aria-invalid", String(text !== ""));
  }
}
