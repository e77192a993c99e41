// What stays around every page: the sentence on top, the menu, the login's name, the theme.

import { byId, make, setIcon, icon } from "../../chat/src/dom.ts";
import { applyTheme, onSystemTheme, type Theme, toggleTheme } from "../../chat/src/theme.ts";
import type { Login } from "./answers.ts";
import type { Feed, Mood } from "./feed.ts";
import { zone } from "./format.ts";

export const PAGES: [page: string, name: string, icon: string][] = [
  ["overview", "Overview", "pulse"],
  ["nodes", "Nodes", "nodes"],
  ["rooms", "Rooms", "room"],
  ["sessions", "Sessions", "people"],
  ["ends", "Ends", "end"],
  ["backends", "Backends", "backend"],
  ["trace", "Live trace", "trace"],
  ["try", "Try it", "send"],
  ["config", "Configuration", "config"],
  ["audit", "Audit", "audit"],
];

const MOOD_ICONS: Record<Mood, string> = {
  ok: "check",
  warn: "warning",
  bad: "stop",
  unknown: "unknown",
};

export class Shell {
  #menu = byId<HTMLButtonElement>("menu");
  #side = byId("side");
  #links = new Map<string, HTMLAnchorElement>();
  #mood: Mood | undefined;

  constructor(
    readonly feed: Feed,
    leave: () => void,
  ) {
    for (const [page, name, picture] of PAGES) {
      const item = make("li");
      const anchor = make("a");
      anchor.href = `#/${page}`;
      anchor.append(icon(picture), name);
      item.append(anchor);
      byId("pages").append(item);
      this.#links.set(page, anchor);
    }
    byId("leave").addEventListener("click", leave);
    byId("theme").addEventListener("click", () => showTheme(toggleTheme()));
    onSystemTheme(() => showTheme(applyTheme()));
    showTheme(applyTheme());
    this.#menu.addEventListener("click", () => this.#open(this.#side.dataset.open !== "true"));
    document.addEventListener("keydown", ({ key }) => {
      if (key === "Escape" && this.#side.dataset.open === "true") {
        this.#open(false);
        this.#menu.focus();
      }
    });
    byId("zone").textContent = `Times are ${zone()}`;
    feed.listen(() => this.#render());
  }

  /** Empty while nobody is logged in: then there is nothing around the login. */
  show(login: Login | undefined): void {
    document.body.classList.toggle("outside", login === undefined);
    if (!login) return;
    byId("leave").hidden = login.name === "";
    byId("key-name").textContent = login.name || "No API key";
    const scopes =
      login.name === ""
        ? "configure one to do more"
        : login.scopes.length === 0
          ? "may do everything"
          : login.scopes.join(", ");
    const where = login.namespaces.length === 0 ? "" : `, in ${login.namespaces.join(", ")}`;
    byId("key-scopes").textContent = `${scopes}${where}`;
  }

  at(page: string): void {
    for (const [name, anchor] of this.#links) {
      if (name === page) anchor.setAttribute("aria-current", "page");
      else anchor.removeAttribute("aria-current");
    }
    this.#open(false);
  }

  #open(open: boolean): void {
    this.#side.dataset.open = String(open);
    this.#menu.setAttribute("aria-expanded", String(open));
  }

  #render(): void {
    const { mood, sentence, last } = this.feed;
    const place = byId("health");
    place.dataset.mood = mood;
    setIcon(place, MOOD_ICONS[mood]);
    byId("sentence").textContent = sentence;
    // Its figures change each second; aloud it is said only when the mood turns.
    if (mood !== this.#mood) byId("health-aloud").textContent = sentence;
    this.#mood = mood;
    byId("node-name").textContent = last ? `${last.node.name}, ${last.node.version}` : "";
  }
}

function showTheme(theme: Theme): void {
  const button = byId("theme");
  setIcon(button, theme === "dark" ? "sun" : "moon");
  const label = theme === "dark" ? "Use the light theme" : "Use the dark theme";
  button.setAttribute("aria-label", label);
  button.title = label;
}
