// Small parts that several pages have: names, links, badges, fields, buttons, notices.

import { icon, make } from "../../chat/src/dom.ts";
import { Problem } from "./api.ts";

/** A name from outside: text only, and its direction stays its own. */
export function given(text: string): HTMLElement {
  return make("bdi", "given", text);
}

/** A sentence: texts of the page, and `named` ones from outside. */
export type Words = (Node | string)[];

const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * A name within a sentence that people act on: its edge is seen, and signs that turn the direction
 * of text are written out.
 */
export function named(text: string): HTMLElement {
  const code = (sign: string) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return make("bdi", "given named", text.replace(TURNING, code));
}

/** Names with commas between them, which names may contain. */
export function namesList(names: string[]): DocumentFragment {
  const list = document.createDocumentFragment();
  for (const name of names) list.append(list.hasChildNodes() ? ", " : "", named(name));
  return list;
}

export function link(href: string, text: string, className = ""): HTMLAnchorElement {
  const anchor = make("a", className);
  anchor.href = href;
  anchor.append(given(text));
  return anchor;
}

export type Tone = "ok" | "warn" | "bad" | "calm";

export function badge(text: string, tone: Tone = "calm"): HTMLElement {
  return make("span", `badge ${tone}`, text);
}

export function button(text: string, className: string, pressed: () => void): HTMLButtonElement {
  const element = make("button", `button ${className}`, text);
  element.type = "button";
  element.addEventListener("click", pressed);
  return element;
}

let fields = 0;

export interface Field<T extends HTMLElement> {
  element: HTMLElement;
  input: T;
}

/** An input with its label above it. */
export function textField(label: string, value: string, hint = ""): Field<HTMLInputElement> {
  const input = make("input");
  input.value = value;
  input.placeholder = hint;
  input.spellcheck = false;
  input.autocapitalize = "none";
  input.autocomplete = "off";
  input.dir = "auto";
  return { element: labelled(label, input), input };
}

export function choiceField(
  label: string,
  choices: [value: string, text: string][],
  value: string,
): Field<HTMLSelectElement> {
  const input = make("select");
  for (const [name, text] of choices) {
    const option = make("option", "", text);
    option.value = name;
    input.append(option);
  }
  input.value = value;
  return { element: labelled(label, input), input };
}

export function labelled(label: string, input: HTMLElement): HTMLElement {
  const element = make("div", "field");
  const name = make("label", "", label);
  fields += 1;
  input.id = `field-${fields}`;
  name.htmlFor = input.id;
  element.append(name, input);
  return element;
}

export function checkbox(label: string, checked: boolean): Field<HTMLInputElement> {
  const element = make("label", "check");
  const input = make("input");
  input.type = "checkbox";
  input.checked = checked;
  element.append(input, label);
  return { element, input };
}

/** One of a few; arrow keys move between them, as between radio buttons. */
export function segments(
  legend: string,
  choices: [value: string, text: string][],
  value: string,
  chosen: (value: string) => void,
): HTMLElement {
  const element = make("fieldset", "segments");
  element.append(make("legend", "hidden", legend));
  fields += 1;
  const group = `group-${fields}`;
  for (const [name, text] of choices) {
    const label = make("label");
    const input = make("input");
    input.type = "radio";
    input.name = group;
    input.value = name;
    input.checked = name === value;
    input.addEventListener("change", () => chosen(name));
    label.append(input, make("span", "", text));
    element.append(label);
  }
  return element;
}

type Fact = [name: string, value: Node | string];

/** Names and values. A value that stays the same is not touched, so that one can mark and copy it. */
export class Facts {
  readonly element = make("dl", "facts");
  #values = new Map<string, HTMLElement>();

  show(entries: Fact[]): void {
    for (const [name, value] of entries) {
      const text = typeof value === "string" ? value : value.textContent;
      const place = this.#values.get(name) ?? this.#create(name);
      if (place.textContent !== text) place.replaceChildren(value);
    }
  }

  #create(name: string): HTMLElement {
    const pair = make("div");
    const place = make("dd");
    pair.append(make("dt", "", name), place);
    this.element.append(pair);
    this.#values.set(name, place);
    return place;
  }
}

export function facts(entries: Fact[]): HTMLElement {
  const list = new Facts();
  list.show(entries);
  return list.element;
}

export function section(title: string, ...content: (Node | string)[]): HTMLElement {
  const element = make("section", "card");
  const head = make("div", "card-head");
  head.append(make("h2", "", title));
  element.append(head, ...content);
  return element;
}

/** Says what went wrong, or what was done; one at a time. */
export class Notice {
  readonly element = make("div", "notice");

  constructor() {
    this.element.hidden = true;
    this.element.setAttribute("role", "status");
  }

  say(words: string | Words, tone: Tone): void {
    this.element.className = `notice ${tone}`;
    const text = make("span");
    text.append(...(typeof words === "string" ? [words] : words));
    this.element.replaceChildren(icon(tone === "ok" ? "check" : "warning"), text);
    this.element.hidden = false;
  }

  /** Shows the words of a problem; a call that was called off is none. */
  fail(error: unknown): void {
    if (error instanceof DOMException && error.name === "AbortError") return;
    if (!(error instanceof Problem)) throw error;
    this.say(problemText(error), "bad");
  }

  clear(): void {
    this.element.hidden = true;
  }
}

function problemText({ title, detail, field }: Problem): string {
  const where = field === "" ? "" : ` (${field})`;
  return `${title}: ${detail}${where}`;
}
