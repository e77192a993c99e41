// Sends an event to clients, and shows the same call as a program.

import { make } from "../../../chat/src/dom.ts";
import {
  button,
  checkbox,
  choiceField,
  type Field,
  labelled,
  section,
  segments,
  textField,
} from "../controls.ts";
import { type Language, program } from "../code.ts";
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

const ABOUT_CLIENTS =
  "The page has no test client: clients connect to another address, which this page may not call.";

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
  }

  open(): void {
    const { view } = this;
    view.head("Try it", "Sends an event to clients on all nodes, as a program would.");
    const form = make("form", "stack");
    const fields = make("div", "filters");
    fields.append(this.#target.element, this.#name.element, this.#namespace.element);
    fields.append(this.#event.element);
    const args = labelled("Arguments, a JSON array", this.#args);
    this.#argsProblem.id = "args-problem";
    this.#argsProblem.setAttribute("role", "alert");
    this.#args.setAttribute("aria-describedby", this.#argsProblem.id);
    args.append(this.#argsProblem);
    const send = button("Send", "primary", () => {});
    send.type = "submit";
    const buttons = make("div", "buttons");
    buttons.append(send);
    if (!view.api.allows("emit")) {
      send.disabled = true;
      buttons.append(make("p", "about", "This key lacks the scope emit."));
    }
    form.append(fields, args, this.#ack.element, buttons);
    form.addEventListener("input", () => this.#changed());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#send();
    });
    this.#answer.tabIndex = 0;
    this.#answer.setAttribute("aria-label", "Answer of the node");
    this.#answer.setAttribute("role", "status");
    this.#answer.textContent = "Nothing was sent yet.";
    view.add(section("Event", form), section("Answer", this.#answer), this.#programs());
    view.add(make("p", "about", ABOUT_CLIENTS));
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
    const copy = button("Copy", "plain small", () => {
      void navigator.clipboard.writeText(this.#code.textContent ?? "").then(
        () => this.view.notice.say("Copied.", "ok"),
        () => this.view.notice.say("This browser does not let the page copy.", "warn"),
      );
    });
    const element = section("The same call as a program", this.#code);
    element.querySelector(".card-head")?.append(choice, copy);
    return element;
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
    if (kind !== "") members.push(`"${kind}": [${JSON.stringify(this.#name.input.value)}]`);
    if (this.#ack.input.checked) members.push(`"ack": {"timeout_ms": ${ANSWERS_MS}}`);
    return `{${members.join(", ")}}`;
  }

  #changed(): void {
    const everybody = this.#target.input.value === "";
    this.#name.element.hidden = everybody;
    this.#name.input.required = !everybody;
    const body = this.#body();
    if (body !== undefined) this.#code.textContent = program(this.#language, PATH, body);
  }

  async #send(): Promise<void> {
    const body = this.#body();
    if (body === undefined) return this.#args.focus();
    const everybody = this.#target.input.value === "";
    if (everybody && !(await this.#sure())) return;
    this.#answer.textContent = "Sending…";
    try {
      const answer = await this.view.api.post(PATH, body);
      this.#answer.textContent = JSON.stringify(answer, undefined, 2);
      this.view.notice.clear();
    } catch (error) {
      this.#answer.textContent = "It was refused.";
      this.view.notice.fail(error);
    }
  }

  #sure(): Promise<boolean> {
    return this.view.confirm.ask({
      title: "Send it to everybody?",
      text: `All clients in the namespace ${this.#namespace.input.value || "/"}, on all nodes, get ${this.#event.input.value}.`,
      yes: "Send to everybody",
    });
  }
}
