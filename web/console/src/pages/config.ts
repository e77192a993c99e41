// What is in force and where it comes from, and what a reload would change.

import { make } from "../../../chat/src/dom.ts";
import type { Configuration, Setting } from "../answers.ts";
import { badge, button, checkbox, section, textField } from "../controls.ts";
import { counted } from "../format.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

export function config(view: View): void {
  let settings: Setting[] = [];
  const filter = textField("Key or value contains", view.route.query.get("contains") ?? "");
  const changed = checkbox("Only what is not a default", false);
  const found = make("p", "found");
  const reload = make("div");
  const table = new Table<Setting>(
    "Settings",
    [
      { head: "Key", text: ({ key }) => key, className: "mono" },
      { head: "Value", text: ({ value }) => JSON.stringify(value), className: "name mono" },
      {
        head: "From",
        text: ({ source }) => source,
        node: ({ source }) => badge(source, source === "default" ? "calm" : "ok"),
        className: "name",
      },
    ],
    ({ key }) => key,
    "No setting matches.",
  );
  const render = () => {
    const part = filter.input.value.trim().toLowerCase();
    const chosen = settings.filter(
      ({ key, value, source }) =>
        (!changed.input.checked || source !== "default") &&
        `${key} ${JSON.stringify(value)}`.toLowerCase().includes(part),
    );
    table.render(chosen);
    found.textContent = `${counted(chosen.length, "setting")} of ${settings.length}.`;
  };
  const look = async () => {
    const answer = await view.api.get<Configuration>("/v1/node/config", view.signal);
    settings = answer.settings;
    render();
    reload.replaceChildren(dryRun(answer.reload));
  };
  view.head(
    "Configuration",
    "What is in force on this node. Secrets are hidden.",
    button("Read again", "plain", () => void view.once(look)),
  );
  found.setAttribute("role", "status");
  const form = make("div", "filters");
  form.append(filter.element, changed.element);
  form.addEventListener("input", render);
  view.add(reload, form, found, table.element);
  void view.once(look);
}

/** What SIGHUP would do now. */
function dryRun({ live = [], restart = [], problems = [] }: Configuration["reload"]): HTMLElement {
  const title = "If the configuration were loaded again now";
  const element = section(title);
  const line = (words: string, keys: string[], tone: "ok" | "warn" | "bad") => {
    if (keys.length === 0) return;
    const list = make("ul", "chips");
    list.setAttribute("aria-label", words);
    for (const key of keys) {
      const item = make("li");
      item.append(make("span", `chip ${tone}`, key));
      list.append(item);
    }
    element.append(make("p", "", words), list);
  };
  line("It would be refused:", problems, "bad");
  line("These would change at once:", live, "ok");
  line("These would wait for a restart:", restart, "warn");
  if (live.length + restart.length + problems.length === 0)
    element.append(make("p", "about", "Nothing would change."));
  return element;
}
