// What passes a user, a session, a room or events of one name, as it passes: on all nodes, with what became of it.

import { make } from "../../../chat/src/dom.ts";
import type { TraceLine, TraceWord } from "../answers.ts";
import {
  badge,
  button,
  checkbox,
  choiceField,
  type Field,
  given,
  section,
  type Tone,
  textField,
} from "../controls.ts";
import { bytes, clock, count, counted, NONE } from "../format.ts";
import { archive } from "../har.ts";
import { callPath, rememberQuery } from "../route.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

/** Older lines are forgotten: a page that is left open must not grow. */
const KEPT_MAX = 2000;
const SHOWN_MAX = 200;
const RENDER_MS = 200;

const SUBJECTS: [string, string][] = [
  ["user", "User"],
  ["session", "Session or socket"],
  ["room", "Room"],
  ["event", "Event"],
];

const TIMES: [string, string][] = [
  ["60", "1 minute"],
  ["300", "5 minutes"],
  ["600", "10 minutes"],
];

const TONES: Record<string, Tone> = { refused: "bad", dropped: "warn", ended: "warn" };

const NAMES_ONLY = "Arguments are told by type and size only.";

/** A line with its number, by which its row is known. */
interface Row {
  number: number;
  text: string;
  line: TraceLine;
}

const millis = (ms: number): string => String(ms % 1000).padStart(3, "0");

export function decided(line: TraceLine): string {
  const { decision, why, code, by } = line;
  switch (decision) {
    case "relayed": {
      const parts = [counted(line.sockets ?? 0, "socket")];
      if (line.shards) parts.push(counted(line.shards, "shard"));
      if (line.nodes) parts.push(`other nodes`);
      return `relayed to ${parts.join(", ")}`;
    }
    case "backend":
      return "sent to the backend";
    case "delivered":
      return `delivered to ${counted(line.sockets ?? 0, "socket")}${by ? `, by ${by}` : ""}`;
    case "answered":
      return line.after_ms === undefined ? decision : `answered after ${count(line.after_ms)} ms`;
    case "refused":
      return `refused: ${why} (${code})`;
    case "joined":
      return `joined by ${line.transport}`;
    default:
      return why ? `${decision}: ${why}` : decision;
  }
}

function who({ user, socket, session, rooms }: TraceLine): string {
  return user ?? socket ?? session ?? (rooms ? `room ${rooms.join(", ")}` : NONE);
}

const table = () =>
  new Table<Row>(
    "Lines",
    [
      {
        head: "Time",
        text: ({ line }) => `${clock(line.at_ms)}.${millis(line.at_ms)}`,
        className: "when",
      },
      { head: "Way", text: ({ line }) => (line.direction === "in" ? "from client" : "to client") },
      { head: "What", text: ({ line }) => line.what },
      { head: "Who", text: ({ line }) => who(line), node: ({ line }) => given(who(line)) },
      {
        head: "Event",
        text: ({ line }) => line.event ?? NONE,
        node: ({ line }) => given(line.event ?? NONE),
        className: "name short",
      },
      {
        head: "What became of it",
        text: ({ line }) => decided(line),
        node: ({ line }) => badge(decided(line), TONES[line.decision] ?? "calm"),
        className: "name fate",
      },
      { head: "Arguments", text: ({ line }) => line.args ?? NONE, className: "name short mono" },
      {
        head: "Size",
        text: ({ line }) => (line.bytes === undefined ? NONE : bytes(line.bytes)),
        figure: true,
      },
      { head: "Rule", text: ({ line }) => line.rule ?? NONE, className: "name short" },
      { head: "Node", text: ({ line }) => `${line.node}/${line.shard}`, figure: true },
    ],
    ({ number }) => String(number),
    "Nothing has passed yet.",
  );

export function trace(view: View): void {
  new TracePage(view).open();
}

class TracePage {
  #subject: Field<HTMLSelectElement>;
  #name: Field<HTMLInputElement>;
  #namespace: Field<HTMLInputElement>;
  #time = choiceField("For", TIMES, "300");
  #payload = checkbox("Show arguments as they are", false);
  #reason = textField("Reason, for the audit", "");
  #filter = textField("Only lines with", "");
  #submit = button("Follow", "primary", () => {});
  #stop = button("Stop", "plain", () => this.#end?.abort());
  #pause = button("Pause", "plain small", () => this.#togglePause());
  #export = button("Export", "plain small", () => this.#saveLines());
  #archive = button("Export HAR", "plain small", () => this.#saveArchive());
  #clear = button("Clear", "plain small", () => this.#forget());
  #state = make("p", "found");
  #asides = make("ul", "asides");
  #found = make("p", "found");
  #table = table();
  #rows: Row[] = [];
  #numbers = 0;
  #missing = 0;
  #paused = false;
  #timer = 0;
  #end: AbortController | undefined;
  #nodes = new Map<number, string>();

  constructor(readonly view: View) {
    const { query } = view.route;
    const [kind] = SUBJECTS.find(([name]) => query.has(name)) ?? ["user"];
    this.#subject = choiceField("Follow", SUBJECTS, kind);
    this.#name = textField("Its name", query.get(kind) ?? "");
    this.#namespace = textField("Namespace", query.get("namespace") ?? "", "/, or all of a user");
  }

  open(): void {
    const { view } = this;
    view.head("Live trace", `What passes, on all nodes, and what became of it. ${NAMES_ONLY}`);
    view.add(section("Follow", this.#form()), this.#list());
    view.signal.addEventListener("abort", () => clearTimeout(this.#timer));
    this.#changed();
    this.#render();
  }

  #form(): HTMLElement {
    const form = make("form", "stack");
    const fields = make("div", "filters");
    const { element: subject } = this.#subject;
    fields.append(subject, this.#name.element, this.#namespace.element, this.#time.element);
    fields.append(this.#payload.element, this.#reason.element);
    this.#name.input.required = true;
    this.#reason.input.maxLength = 200;
    this.#submit.type = "submit";
    const buttons = make("div", "buttons");
    buttons.append(this.#submit, this.#stop, this.#state);
    this.#state.setAttribute("role", "status");
    form.append(fields, buttons);
    form.addEventListener("input", () => this.#changed());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.#end) void this.#follow();
    });
    if (!this.view.api.allows("trace")) this.#state.textContent = "This key lacks the scope trace.";
    return form;
  }

  #list(): HTMLElement {
    const part = section("Lines", this.#filter.element, this.#found, this.#asides);
    part.append(this.#table.element);
    const tools = make("div", "buttons");
    tools.append(this.#pause, this.#clear, this.#export, this.#archive);
    part.querySelector(".card-head")?.append(tools);
    this.#pause.setAttribute("aria-pressed", "false");
    this.#filter.input.addEventListener("input", () => this.#render());
    return part;
  }

  #changed(): void {
    const { api } = this.view;
    const runs = this.#end !== undefined;
    const payload = this.#payload.input.checked;
    this.#payload.input.disabled = runs || !api.allows("trace:payload");
    this.#reason.element.hidden = !payload;
    this.#reason.input.required = payload;
    for (const { input } of [this.#subject, this.#name, this.#namespace, this.#time, this.#reason])
      input.disabled = runs;
    this.#submit.disabled = runs || !api.allows("trace");
    this.#stop.disabled = !runs;
  }

  async #follow(): Promise<void> {
    const subject = { [this.#subject.input.value]: this.#name.input.value };
    const namespace = this.#namespace.input.value.trim();
    rememberQuery("trace", { ...subject, namespace });
    const payload = this.#payload.input.checked;
    const reason = payload ? { payload: "true", reason: this.#reason.input.value } : {};
    const seconds = this.#time.input.value;
    const path = callPath("/v1/trace", { ...subject, namespace, seconds, ...reason });
    const end = new AbortController();
    this.#end = end;
    this.#nodes.clear();
    this.view.notice.clear();
    this.#say("Asking the nodes…");
    this.#changed();
    this.#stop.focus();
    let last = "The connection has ended.";
    try {
      await this.view.api.lines(path, AbortSignal.any([end.signal, this.view.signal]), (text) => {
        last = this.#take(text) ?? last;
      });
      this.#say(last);
    } catch (error) {
      this.#say(end.signal.aborted ? "Stopped." : "It could not go on.");
      if (!this.view.signal.aborted) this.view.notice.fail(error);
    } finally {
      this.#end = undefined;
      const focused = document.activeElement === this.#stop;
      this.#changed();
      if (focused) this.#submit.focus();
      if (!this.view.signal.aborted) this.#render();
    }
  }

  #say(text: string): void {
    this.#state.textContent = text;
  }

  /** The words of the last line, if this is it. */
  #take(text: string): string | undefined {
    const line = JSON.parse(text) as TraceLine | TraceWord;
    switch (line.kind) {
      case "begin":
        this.#say(`Following ${line.of}, until ${clock(line.until_ms)}.`);
        break;
      case "node":
        this.#nodes.set(line.node, line.why ? `${line.state}: ${line.why}` : line.state);
        break;
      case "dropped":
        this.#missing += line.lines;
        break;
      case "end":
        return `Ended: ${line.why}.`;
      case "line":
        this.#numbers += 1;
        this.#rows.push({ number: this.#numbers, text, line });
        if (this.#rows.length > KEPT_MAX) this.#rows.splice(0, this.#rows.length - KEPT_MAX);
        break;
      default:
        return undefined;
    }
    // Hundreds of lines a second are shown in a few steps.
    if (this.#timer === 0)
      this.#timer = setTimeout(() => {
        this.#timer = 0;
        this.#render();
      }, RENDER_MS);
    return undefined;
  }

  /** Those that the filter lets through, the newest first. */
  #chosen(): Row[] {
    const wanted = this.#filter.input.value.toLowerCase();
    const fits = ({ text }: Row) => wanted === "" || text.toLowerCase().includes(wanted);
    return this.#rows.filter(fits).reverse();
  }

  #render(): void {
    const chosen = this.#chosen();
    const parts = [`${counted(this.#rows.length, "line")} kept`];
    if (this.#filter.input.value !== "") parts.push(`${count(chosen.length)} fit`);
    if (chosen.length > SHOWN_MAX) parts.push(`the last ${SHOWN_MAX} are shown`);
    if (this.#missing > 0)
      parts.push(`${counted(this.#missing, "line")} missing: there were too many`);
    if (this.#paused) parts.push("paused");
    this.#found.textContent = `${parts.join(", ")}.`;
    this.#export.disabled = chosen.length === 0;
    this.#archive.disabled = chosen.length === 0;
    this.#clear.disabled = this.#rows.length === 0;
    this.#renderNodes();
    if (!this.#paused) this.#table.render(chosen.slice(0, SHOWN_MAX));
  }

  #renderNodes(): void {
    const rows = [...this.#nodes].map(([node, state]) => `Node ${node}: ${state}`);
    const sign = rows.join("\n");
    if (this.#asides.dataset.sign === sign) return;
    this.#asides.dataset.sign = sign;
    this.#asides.replaceChildren(...rows.map((row) => make("li", "", row)));
  }

  #togglePause(): void {
    this.#paused = !this.#paused;
    this.#pause.textContent = this.#paused ? "Go on" : "Pause";
    this.#pause.setAttribute("aria-pressed", String(this.#paused));
    this.#render();
  }

  #forget(): void {
    this.#rows = [];
    this.#missing = 0;
    this.#table.render([]);
    this.#render();
    this.#pause.focus();
  }

  /** The lines that fit, the oldest first, as they came. */
  #saveLines(): void {
    const texts = this.#chosen().reverse();
    const lines = texts.map(({ text }) => `${text}\n`);
    save("sockeye-trace.jsonl", "application/x-ndjson", lines);
  }

  #saveArchive(): void {
    const lines = this.#chosen().reverse();
    save("sockeye-trace.har", "application/json", [archive(lines.map(({ line }) => line))]);
  }
}

function save(name: string, type: string, texts: string[]): void {
  const address = URL.createObjectURL(new Blob(texts, { type }));
  const anchor = make("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
