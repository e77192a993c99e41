// Puts the console together: login, what stays around the pages, and the page of the address.

import { byId } from "../../chat/src/dom.ts";
import { applyTheme } from "../../chat/src/theme.ts";
import { Api, Problem } from "./api.ts";
import { Confirm } from "./confirm.ts";
import { Feed } from "./feed.ts";
import { LoginForm } from "./login.ts";
import { audit } from "./pages/audit.ts";
import { backends } from "./pages/backends.ts";
import { config } from "./pages/config.ts";
import { ends } from "./pages/ends.ts";
import { nodes } from "./pages/nodes.ts";
import { overview } from "./pages/overview.ts";
import { rooms } from "./pages/rooms.ts";
import { session } from "./pages/session.ts";
import { sessions } from "./pages/sessions.ts";
import { trace } from "./pages/trace.ts";
import { tryIt } from "./pages/try.ts";
import { readRoute } from "./route.ts";
import { Shell } from "./shell.ts";
import { type Page, View } from "./view.ts";

/** The pages, and their places in the menu. */
const PAGES = new Map<string, [page: Page, place: string]>([
  ["overview", [overview, "overview"]],
  ["nodes", [nodes, "nodes"]],
  ["rooms", [rooms, "rooms"]],
  ["sessions", [sessions, "sessions"]],
  ["session", [session, "sessions"]],
  ["ends", [ends, "ends"]],
  ["backends", [backends, "backends"]],
  ["trace", [trace, "trace"]],
  ["try", [tryIt, "try"]],
  ["config", [config, "config"]],
  ["audit", [audit, "audit"]],
]);

class Console {
  #api = new Api();
  #feed = new Feed(this.#api);
  #confirm = new Confirm();
  #login = new LoginForm(this.#api, () => this.#entered());
  #shell = new Shell(this.#feed, () => void this.#leave());
  #main = byId("main");
  #view: View | undefined;

  async start(): Promise<void> {
    this.#api.ended = () => this.#outside("Your login has ended. Enter your key again to go on.");
    window.addEventListener("hashchange", () => {
      if (this.#api.login) this.#open(true);
    });
    // The page's own route would take the address of this link.
    byId("skip").addEventListener("click", (event) => {
      event.preventDefault();
      this.#main.focus();
    });
    this.#api.onOtherTab(() => void this.#resume());
    await this.#resume();
  }

  async #resume(): Promise<void> {
    try {
      await this.#api.resume();
      this.#entered();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.#outside(error.status === 401 ? "" : `${error.title}: ${error.detail}.`);
    }
  }

  #entered(): void {
    this.#login.hide();
    this.#shell.show(this.#api.login);
    this.#open(true);
    // The overview has started it already, at its own pace.
    if (!this.#feed.running) this.#feed.start();
  }

  #outside(why: string): void {
    this.#view?.close();
    this.#view = undefined;
    this.#confirm.withdraw();
    this.#main.replaceChildren();
    this.#feed.forget();
    this.#shell.show(undefined);
    this.#login.show(why);
  }

  #open(focus: boolean): void {
    const route = readRoute();
    const [page, place] = PAGES.get(route.page) ?? [overview, "overview"];
    this.#view?.close();
    // A question of the page before would act where nobody sees it any more.
    this.#confirm.withdraw();
    this.#view = new View(this.#main, route, this.#api, this.#feed, this.#confirm);
    this.#shell.at(place);
    page(this.#view);
    window.scrollTo(0, 0);
    if (focus) this.#main.querySelector("h1")?.focus({ preventScroll: true });
  }

  async #leave(): Promise<void> {
    try {
      await this.#api.leave();
      this.#outside("");
    } catch (error) {
      this.#view?.notice.fail(error);
    }
  }
}

// The script stands before the body, so that a chosen theme never flashes the other one.
applyTheme();
document.addEventListener("DOMContentLoaded", () => void new Console().start());
