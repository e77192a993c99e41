// What the page has to say about the connection and the offline queue, and short messages at the
// bottom.

import type { Link } from "@sockeye/client";
import { byId, make } from "./dom.ts";
import { plural } from "./text.ts";

const TOAST_MS = 6000;
const TOASTS_MAX = 3;
const COUNTDOWN_STEP_MS = 250;

export class Notices {
  #notice = byId("notice");
  #text = byId("notice-text");
  #countdown = byId("countdown");
  #queue = byId("queue-notice");
  #state = byId("link-state");
  #toasts = byId("toasts");
  #ticker: ReturnType<typeof setInterval> | undefined;

  constructor(retryNow: () => void) {
    byId("retry-now").addEventListener("click", retryNow);
  }

  link(link: Link): void {
    clearInterval(this.#ticker);
    this.#state.dataset.phase = link.phase;
    this.#state.textContent = stateText(link);
    if (link.phase === "online") this.#notice.hidden = true;
    if (link.phase === "connecting") this.#countdown.textContent = "Connecting…";
    if (link.phase === "waiting") this.#wait(link.why, link.retryAt);
  }

  queue(waiting: number, dropped: number, online: boolean): void {
    const text = waiting > 0 && !online ? queueText(waiting, dropped) : "";
    if (this.#queue.textContent !== text) this.#queue.textContent = text;
    this.#queue.hidden = text === "";
  }

  toast(text: string): void {
    const shown = [...this.#toasts.children];
    if (shown.some((toast) => toast.textContent === text)) return;
    if (shown.length >= TOASTS_MAX) shown[0]?.remove();
    const toast = make("p", "toast", text);
    this.#toasts.append(toast);
    setTimeout(() => toast.remove(), TOAST_MS);
  }

  #wait(why: string, retryAt: number): void {
    // The sentence is set once and the seconds are hidden from screen readers, which would
    // read each of them aloud.
    this.#text.textContent = `${why}.`;
    this.#notice.hidden = false;
    const step = () => {
      const seconds = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
      this.#countdown.textContent = `Trying again in ${seconds} s`;
    };
    step();
    this.#ticker = setInterval(step, COUNTDOWN_STEP_MS);
  }
}

function stateText(link: Link): string {
  if (link.phase === "online") return `Connected · ${link.transport}`;
  return link.phase === "connecting" ? "Connecting…" : "Offline";
}

function queueText(waiting: number, dropped: number): string {
  const kept = `${plural(waiting, "message is", "messages are")} waiting to be sent.`;
  if (dropped === 0) return kept;
  const lost = plural(dropped, "older message was", "older messages were");
  return `${kept} The queue is full: ${lost} taken out.`;
}
