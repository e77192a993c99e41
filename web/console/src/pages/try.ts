// Sends an event to clients, shows the same call as a program, and lets a test client listen.

import { make } from "../../../chat/src/dom.ts";
import { Problem } from "../api.ts";
import {
  button,
  checkbox,
  choiceField,
  type Field,
  labelled,
  named,
  section,
  segments,
  textField,
} from "../controls.ts";
import { type Language, program } from "../code.ts";
import { Ear } from "../ear.ts";
import type { View } from "../view.ts";

const PATH = "/v1/emit";
const ANSWERS_MS = 5000;

const TARGETS: [string, string][] = [
  ["rooms", "Room"],
  ["users", "User"],
  ["sockets", "Socket"],
  ["", "Everybody in the namespace"],
];

const LANGUAGES: [Language, string][] = [
  ["curl", "curl"],
  ["node", "Node"],
  ["python", "Python"],
];

const UNKNOWN =
  "No answer came: the event may have been sent. Within ten minutes, and with the form as it is, Send does not send it twice.";

/** Whether the event may have been sent all the same. A busy node (503) has done nothing. */
function isUnknown(error: unknown): boolean {
  if (!(error instanceof Problem)) return false;
  return error.status === 0 || (error.status >= 500 && error.status !== 503);
}

/** `crypto.randomUUID` is missing where the page came by plain HTTP from another machine. */
function onceKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function tryIt(view: View): void {
  new TryPage(view).open();
}

class TryPage {
  #target: Field<HTMLSelectElement>;
  #name: Field<HTMLInputElement>;
  #namespace: Field<HTMLInputElement>;
  #event = textField("Event", "news");
  #args = make("textarea");
  #ack = checkbox(`Wait up to ${ANSWERS_MS / 1000} s for the answers of all receivers`, false);
  #language: Language = "curl";
  #code = make("pre", "code");
  #answer = make("pre", "code");
  #argsProblem = make("p", "field-problem");
  #submit = button("Send", "primary", () => {});
  #copy = button("Copy", "plain small", () => void this.#copyCode());
  #sending = false;
  #ear: Ear;
  /** The same until it is known what became of the event: sent once more, it is carried out once. */
  #once = onceKey();

  constructor(readonly view: View) {
    const { query } = view.route;
    const kind = query.has("user") ? "users" : query.has("socket") ? "sockets" : "rooms";
    const name = query.get("room") ?? query.get("user") ?? query.get("socket") ?? "";
    this.#target = choiceField("Send to", TARGETS, kind);
    this.#name = textField("Its name", name);
    this.#namespace = textField("Namespace", query.get("namespace") ?? "/");
    this.#args.value = '["hello"]';
    this.#args.rows = 4;
    this.#args.spellcheck = false;
    const listens = () => {
      const target = this.#target.input.value;
      if (target === "") return "";
      return target === "rooms" ? this.#name.input.value : undefined;
    };
    this.#ear = new Ear(view, () => this.#namespace.input.value.trim(), listens);
  }

  open(): void {
    const { view } = this;
    view.head("Try it", "Sends an event to clients on all nodes, as a program would; and listens.");
    const form = make("form", "stack");
    const fields = make("div", "filters");
    fields.append(this.#target.element, this.#name.element, this.#namespace.element);
    fields.append(this.#event.element);
    const args = labelled("Arguments, a JSON array", this.#args);
    this.#argsProblem.id = "args-problem";
    this.#argsProblem.setAttribute("role", "alert");
    this.#args.setAttribute("aria-describedby", this.#argsProblem.id);
    args.append(this.#argsProblem);
    this.#submit.type = "submit";
    const buttons = make("div", "buttons");
    buttons.append(this.#submit);
    if (!view.api.allows("emit")) {
      this.#submit.disabled = true;
      buttons.append(make("p", "about", "This key lacks the scope emit."));
    }
    form.append(fields, args, this.#ack.element, buttons);
    form.addEventListener("input", () => {
      this.#once = onceKey();
      this.#changed();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#send();
    });
    this.#answer.tabIndex = 0;
    this.#answer.setAttribute("aria-label", "Answer of the node");
    this.#answer.setAttribute("role", "status");
    this.#answer.textContent = "Nothing was sent yet.";
    view.add(section("Event", form), section("Answer", this.#answer));
    view.add(this.#ear.element, this.#programs());
    this.#changed();
  }

  #programs(): HTMLElement {
    const choice = segments("Language", LANGUAGES, this.#language, (value) => {
      this.#language = value as Language;
      this.#changed();
    });
    this.#code.tabIndex = 0;
    this.#code.setAttribute("role", "region");
    this.#code.setAttribute("aria-label", "The same call as a program");
    const element = section("The same call as a program", this.#code);
    element.querySelector(".card-head")?.append(choice, this.#copy);
    return element;
  }

  async #copyCode(): Promise<void> {
    try {
      // Browsers have no clipboard for pages that came by plain HTTP from another machine.
      await navigator.clipboard.writeText(this.#code.textContent ?? "");
      this.view.notice.say("Copied.", "ok");
    } catch {
      this.view.notice.say("This browser does not let the page copy: mark the text.", "warn");
    }
  }

  /** The body as it is sent. The arguments stay as they were typed. */
  #body(): string | undefined {
    const kind = this.#target.input.value;
    const members = [`"event": ${JSON.stringify(this.#event.input.value)}`];
    const args = this.#args.value.trim() || "[]";
    try {
      if (!Array.isArray(JSON.parse(args))) throw new SyntaxError("it is no array");
      this.#argsProblem.textContent = "";
      this.#args.removeAttribute("aria-invalid");
    } catch (error) {
      this.#argsProblem.textContent = `The arguments cannot be sent: ${(error as Error).message}. Write an array, such as ["hello", 1].`;
      this.#args.setAttribute("aria-invalid", "true");
      return undefined;
    }
    members.push(`"args": ${args}`);
    const namespace = this.#namespace.input.value.trim();
    if (namespace !== "" && namespace !== "/")
      members.push(`"namespace": ${JSON.stringify(namespace)}`);
    const name = JSON.stringify(this.#name.input.value);
    members.push(kind === "" ? `"all": true` : `"${kind}": [${name}]`);
    if (this.#ack.input.checked) members.push(`"ack": {"timeout_ms": ${ANSWERS_MS}}`);
    return `{${members.join(", ")}}`;
  }

  #changed(): void {
    const everybody = this.#target.input.value === "";
    this.#name.element.hidden = everybody;
    this.#name.input.required = !everybody;
    const body = this.#body();
    // What was right before would be for another target.
    this.#code.textContent = body === undefined ? "" : program(this.#language, PATH, body);
    this.#copy.disabled = body === undefined;
    this.#ear.changed();
  }

  /** One press, one event: a second press waits for the answer to the first. */
  async #send(): Promise<void> {
    if (this.#sending) return;
    const body = this.#body();
    if (body === undefined) return this.#args.focus();
    this.#sending = true;
    try {
      const everybody = this.#target.input.value === "";
      if (!everybody || (await this.#sure())) await this.#emit(body);
    } finally {
      this.#sending = false;
    }
  }

  async #emit(body: string): Promise<void> {
    const focused = document.activeElement === this.#submit;
    this.#submit.disabled = true;
    this.#answer.textContent = "Sending…";
    const once = this.#once;
    try {
      const answer = await this.view.api.post(PATH, body, once);
      this.#answer.textContent = JSON.stringify(answer, undefined, 2);
      this.view.notice.clear();
      this.#once = onceKey();
    } catch (error) {
      const unknown = isUnknown(error);
      this.#answer.textContent = unknown ? UNKNOWN : "It was refused.";
      if (!unknown) this.#once = onceKey();
      this.view.notice.fail(error);
    } finally {
      this.#submit.disabled = false;
      if (focused) this.#submit.focus();
    }
  }

  #sure(): Promise<boolean> {
    return this.view.confirm.ask({
      title: "Send it to everybody?",
      text: [
        "All clients in the namespace ",
        named(this.#namespace.input.value || "/"),
        ", on all nodes, get ",
        named(this.#event.input.value),
        ".",
      ],
      yes: "Send to everybody",
    });
  }
}
