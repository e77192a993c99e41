// The last failures of a backend or a bridge, and what was said in them: bodies for a reason only.

import { make } from "../../chat/src/dom.ts";
import type { FailureHere, LastFailures, SaidHere } from "./answers.ts";
import { badge, button, textField } from "./controls.ts";
import { bytes, moment } from "./format.ts";
import { callPath } from "./route.ts";
import { Table } from "./table.ts";
import type { View } from "./view.ts";

const NEEDS = "needs the scope operate";
const GONE = "It is not kept any more.";
/** Of each body the node keeps so much. */
const KEPT_BYTES = 4096;

/** `answer (503 Service Unavailable), 20 B`. */
function heading({ part, names, bytes: size }: SaidHere): string {
  return `${part}${names === null || names === "" ? "" : ` (${names})`}, ${bytes(size)}`;
}

const failuresTable = () =>
  new Table<FailureHere>(
    "Last failures",
    [
      { head: "Time", text: ({ at_ms }) => moment(at_ms), className: "when" },
      { head: "Failure", text: ({ what }) => what, node: ({ what }) => badge(what, "warn") },
      {
        head: "In the words of the log",
        text: ({ detail }) => detail ?? NEEDS,
        className: "name",
      },
      {
        head: "What was said",
        text: ({ said }) => said.map(heading).join("; "),
        className: "name",
      },
    ],
    ({ at_ms, what, detail, said }) => `${at_ms} ${what} ${detail} ${said.length}`,
    "Nothing has failed.",
  );

/** Of a backend or a bridge, with a form for those who may see bodies. */
export class Failures {
  readonly element = make("div", "stack");
  #table = failuresTable();
  #reason = textField("Reason, for the audit", "");
  #bodies = make("div", "stack");
  #hide = button("Hide", "plain", () => this.#clear());

  /** `of` names it in the call, `name` for people. */
  constructor(
    readonly view: View,
    readonly of: Record<string, string>,
    name: string,
  ) {
    this.element.hidden = true;
    this.element.append(this.#table.element);
    if (!view.api.allowsEverywhere("trace:payload")) return;
    const form = make("form", "stack");
    const fields = make("div", "filters");
    const buttons = make("div", "buttons");
    const show = button("Show what was said", "plain", () => {});
    show.type = "submit";
    show.setAttribute("aria-label", `Show what was said in the last failures of ${name}`);
    this.#reason.input.required = true;
    this.#reason.input.maxLength = 200;
    this.#reason.element.classList.add("wide");
    this.#hide.hidden = true;
    fields.append(this.#reason.element);
    buttons.append(show, this.#hide);
    form.append(fields, buttons);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#show();
    });
    this.#bodies.setAttribute("role", "status");
    this.element.append(form, this.#bodies);
  }

  render(failures: FailureHere[]): void {
    this.element.hidden = failures.length === 0;
    this.#table.render(failures);
  }

  async #show(): Promise<void> {
    const { view } = this;
    const path = callPath("/v1/node/failures", { ...this.of, reason: this.#reason.input.value });
    try {
      const { failures } = await view.api.get<LastFailures>(path, view.signal);
      view.notice.clear();
      const shown = failures.filter(({ said }) => said.length > 0);
      this.#bodies.replaceChildren(...shown.map(spoken));
      if (shown.length === 0) this.#bodies.textContent = "Nothing was said in these failures.";
      this.#hide.hidden = false;
    } catch (error) {
      view.notice.fail(error);
      view.notice.element.scrollIntoView({ block: "nearest" });
    }
  }

  #clear(): void {
    this.#bodies.replaceChildren();
    this.#hide.hidden = true;
    this.#reason.input.focus();
  }
}

/** One failure, with bodies as text. */
function spoken({ at_ms, what, said }: FailureHere): HTMLElement {
  const element = make("section", "spoken");
  const head = make("h3");
  head.append(moment(at_ms), " ", badge(what, "warn"));
  element.append(head);
  for (const one of said) {
    const name = `${heading(one)}${one.bytes > KEPT_BYTES ? ", the beginning" : ""}`;
    element.append(make("p", "about", name));
    const body = make("pre", "code", one.body ?? GONE);
    body.tabIndex = 0;
    body.setAttribute("role", "region");
    body.setAttribute("aria-label", `${moment(at_ms)}: ${one.part}`);
    element.append(body);
  }
  return element;
}
