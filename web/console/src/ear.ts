// A test client of this node: it is put into a room and shows what it hears. It has no token, so it is nobody.

import { make } from "../../chat/src/dom.ts";
import type { HeardLine, HeardWord } from "./answers.ts";
import { button, choiceField, section, textField } from "./controls.ts";
import { bytes, clock, counted, NONE } from "./format.ts";
import { callPath } from "./route.ts";
import { Table } from "./table.ts";
import type { View } from "./view.ts";

/** Older ones are forgotten: a page that is left open must not grow. */
const KEPT_MAX = 200;
const RENDER_MS = 200;

const TIMES: [string, string][] = [
  ["60", "1 minute"],
  ["300", "5 minutes"],
  ["600", "10 minutes"],
];

const ABOUT =
  "A client of this node without a token comes in, is put into the room, and shows what it hears. Members and workers see it come and go.";

interface Row {
  number: number;
  line: HeardLine;
}

const table = () =>
  new Table<Row>(
    "What it hears",
    [
      { head: "Time", text: ({ line }) => clock(line.at_ms), className: "when" },
      { head: "Event", text: ({ line }) => line.event, className: "name" },
      { head: "Arguments", text: ({ line }) => line.args || NONE, className: "name mono" },
      { head: "Size", text: ({ line }) => bytes(line.bytes), figure: true },
      {
        head: "And",
        text: ({ line }) => {
          const parts = line.asks ? ["asked for an answer"] : [];
          if (line.attachments > 0) parts.push(counted(line.attachments, "attachment"));
          return parts.join(", ") || NONE;
        },
      },
    ],
    ({ number }) => String(number),
    "It has heard nothing yet.",
  );

/** The text of an input, whenever it is asked for. */
type Read = () => string;

export class Ear {
  readonly element: HTMLElement;
  #time = choiceField("For", TIMES, "300");
  #reason = textField("Reason, for the audit", "");
  #submit = button("Listen", "plain", () => {});
  #stop = button("Stop listening", "plain", () => this.#end?.abort());
  #state = make("p", "found");
  #table = table();
  #rows: Row[] = [];
  #numbers = 0;
  #timer = 0;
  #end: AbortController | undefined;

  /** `room` is empty where all in the namespace are meant; `undefined`: the target is no room. */
  constructor(
    readonly view: View,
    readonly namespace: Read,
    readonly room: () => string | undefined,
  ) {
    const form = make("form", "stack");
    const fields = make("div", "filters");
    fields.append(this.#time.element, this.#reason.element);
    this.#reason.element.classList.add("wide");
    this.#reason.input.required = true;
    this.#reason.input.maxLength = 200;
    this.#submit.type = "submit";
    this.#state.setAttribute("role", "status");
    const buttons = make("div", "buttons");
    buttons.append(this.#submit, this.#stop, this.#state);
    form.append(make("p", "about", ABOUT), fields, buttons);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.#end) void this.#listen();
    });
    this.element = section("Listen", form, this.#table.element);
    view.signal.addEventListener("abort", () => clearTimeout(this.#timer));
    this.changed();
    this.#table.render([]);
  }

  /** The form above has another target. */
  changed(): void {
    const { api } = this.view;
    const runs = this.#end !== undefined;
    const room = this.room();
    // It is put into a room by its caller.
    const needed = room ? ["trace:payload", "members"] : ["trace:payload"];
    const missing = needed.filter((scope) => !api.allows(scope));
    this.#submit.disabled = runs || missing.length > 0 || room === undefined;
    this.#stop.disabled = !runs;
    this.#time.input.disabled = runs;
    this.#reason.input.disabled = runs;
    if (runs) return;
    if (missing.length > 0) this.#say(`This key lacks the scope ${missing.join(" and ")}.`);
    else if (room === undefined) this.#say("It listens in a room, or to all of a namespace.");
    else this.#say(this.#rows.length > 0 ? "" : "Nobody listens.");
  }

  async #listen(): Promise<void> {
    const { view } = this;
    const path = callPath("/v1/node/listen", {
      namespace: this.namespace(),
      room: this.room() ?? "",
      seconds: this.#time.input.value,
      reason: this.#reason.input.value,
    });
    const end = new AbortController();
    this.#end = end;
    this.#rows = [];
    this.#table.render([]);
    view.notice.clear();
    this.changed();
    this.#say("It comes in…");
    this.#stop.focus();
    let last = "The connection has ended.";
    try {
      await view.api.lines(path, AbortSignal.any([end.signal, view.signal]), (text) => {
        last = this.#take(JSON.parse(text) as HeardLine | HeardWord) ?? last;
      });
    } catch (error) {
      last = end.signal.aborted ? "It has left." : "It could not go on.";
      if (!view.signal.aborted) view.notice.fail(error);
    } finally {
      this.#end = undefined;
      const focused = document.activeElement === this.#stop;
      this.changed();
      this.#say(last);
      if (focused) this.#submit.focus();
    }
  }

  #say(text: string): void {
    this.#state.textContent = text;
  }

  /** The words of the last line, if this is it. */
  #take(line: HeardLine | HeardWord): string | undefined {
    switch (line.kind) {
      case "begin":
        this.#say(`It listens as socket ${line.socket}.`);
        break;
      case "joined":
        this.#say(`${this.#state.textContent} It is in the room ${line.room}.`);
        break;
      case "dropped":
        this.#say(`${counted(line.events, "event")} were too many to show.`);
        break;
      case "end":
        return `It has left: ${line.why}.`;
      case "event":
        this.#numbers += 1;
        this.#rows.unshift({ number: this.#numbers, line });
        this.#rows.splice(KEPT_MAX);
        this.#render();
        break;
      default:
    }
    return undefined;
  }

  /** Hundreds of events a second are shown in a few steps. */
  #render(): void {
    if (this.#timer !== 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.#table.render(this.#rows);
    }, RENDER_MS);
  }
}
