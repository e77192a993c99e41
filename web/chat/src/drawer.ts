// On narrow screens the room list is a drawer over the messages. While it is shut nothing in it
// can be focused.

import { byId } from "./dom.ts";

const narrow = matchMedia("(max-width: 760px)");

export class Drawer {
  #side = byId("side");
  #opener = byId<HTMLButtonElement>("open-rooms");
  #closer = byId<HTMLButtonElement>("close-rooms");

  constructor() {
    this.#opener.addEventListener("click", () => this.open());
    this.#closer.addEventListener("click", () => this.close());
    byId("scrim").addEventListener("click", () => this.close());
    this.#side.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
    narrow.addEventListener("change", () => this.#set(false));
    this.#set(false);
  }

  open(): void {
    this.#set(true);
    this.#closer.focus();
  }

  close(): void {
    if (!document.body.classList.contains("drawer-open")) return;
    this.#set(false);
    this.#opener.focus();
  }

  #set(open: boolean): void {
    document.body.classList.toggle("drawer-open", open);
    this.#side.inert = narrow.matches && !open;
    this.#opener.setAttribute("aria-expanded", String(open));
  }
}
