// What a page gets: its place in the document, the node's calls, and a clock that ends with it.

import { make } from "../../chat/src/dom.ts";
import { type Api, Problem } from "./api.ts";
import type { Confirm } from "./confirm.ts";
import { Notice } from "./controls.ts";
import type { Feed } from "./feed.ts";
import type { Route } from "./route.ts";

export class View {
  /** What became of an action; it stays until the next one. */
  readonly notice = new Notice();
  /** Why figures are missing; it goes when they come. */
  readonly #trouble = new Notice();
  readonly #end = new AbortController();
  #loaded = false;
  readonly signal = this.#end.signal;

  constructor(
    readonly root: HTMLElement,
    readonly route: Route,
    readonly api: Api,
    readonly feed: Feed,
    readonly confirm: Confirm,
  ) {}

  /** Title, one line about the page, and place for what goes wrong. */
  head(title: string, about: string, ...tools: Node[]): void {
    const head = make("header", "page-head");
    const heading = make("h1", "", title);
    heading.tabIndex = -1;
    const text = make("div");
    text.append(heading, make("p", "about", about));
    head.append(text);
    if (tools.length > 0) {
      const bar = make("div", "tools");
      bar.append(...tools);
      head.append(bar);
    }
    this.root.replaceChildren(head, this.notice.element, this.#trouble.element);
    document.title = `${title} · Sockeye console`;
  }

  add(...content: Node[]): void {
    this.root.append(...content);
  }

  /** For readers that wait until the page is there. */
  busy(busy: boolean): void {
    this.root.setAttribute("aria-busy", String(busy));
  }

  close(): void {
    this.#end.abort();
    this.busy(false);
  }

  /** Does it once, and shows why it could not be done. The answer: whether it may be tried again. */
  async once(task: () => Promise<void>): Promise<boolean> {
    if (!this.#loaded) this.busy(true);
    try {
      await task();
      if (!this.signal.aborted) this.#trouble.clear();
      return true;
    } catch (error) {
      if (!this.signal.aborted) this.#trouble.fail(error);
      return error instanceof Problem && error.status !== 401 && error.status !== 403;
    } finally {
      this.#loaded = true;
      if (!this.signal.aborted) this.busy(false);
    }
  }

  /** Does it now and again so many ms after each end, while somebody looks, until it is forbidden. */
  every(ms: number, task: () => Promise<void>): void {
    const turn = async () => {
      if (this.signal.aborted) return;
      if (!document.hidden && !(await this.once(task))) return;
      setTimeout(turn, ms);
    };
    void turn();
  }
}

export type Page = (view: View) => void;
