// What is in force and where it comes from, what a reload would change, and how near the limits are.

import { make } from "../../../chat/src/dom.ts";
import type { Configuration, NearLimit, Setting } from "../answers.ts";
import { badge, button, checkbox, section, textField } from "../controls.ts";
import { bytes, count, counted, percent } from "../format.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

export function config(view: View): void {
  let settings: Setting[] = [];
  const filter = textField("Key or value contains", view.route.query.get("contains") ?? "");
  const changed = checkbox("Only what is not a default", false);
  const found = make("p", "found");
  const reload = make("div");
  const near = limitsTable();
  const untouched = make("p", "about");
  const table = new Table<Setting>(
    "Settings",
    [
      { head: "Key", text: ({ key }) => key, className: "mono" },
      { head: "Value", text: ({ value }) => JSON.stringify(value), className: "name fate mono" },
      {
        head: "From",
        text: ({ source }) => source,
        node: ({ source }) => badge(source, source === "default" ? "calm" : "ok"),
        className: "name fate",
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
    const touched = answer.limits.filter(({ used }) => used > 0);
    near.render(touched);
    const rest = answer.limits.length - touched.length;
    untouched.textContent = `Of ${counted(rest, "other limit")} nothing is used.`;
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
  const limits = section("Limits, the nearest first", untouched, near.element);
  view.add(reload, limits, form, found, table.element);
  void view.once(look);
}

function limitsTable(): Table<NearLimit> {
  const figure = ({ unit }: NearLimit, value: number) =>
    unit === "bytes" ? bytes(value) : count(value);
  return new Table<NearLimit>(
    "Limits",
    [
      { head: "Limit", text: ({ key }) => key, className: "mono" },
      {
        head: "How near",
        text: ({ used, limit }) => percent(used / limit),
        node: nearness,
        figure: true,
      },
      { head: "Used", text: (row) => figure(row, row.used), figure: true },
      { head: "Of", text: (row) => figure(row, row.limit), figure: true },
    ],
    ({ key }) => key,
    "No limit has a figure.",
  );
}

/** The share, and its length beside the whole. */
function nearness({ used, limit }: NearLimit): HTMLElement {
  const part = used / limit;
  const size = make("span", `size near ${part > 0.9 ? "bad" : part > 0.8 ? "warn" : ""}`);
  const track = make("span", "track");
  const bar = make("i");
  bar.style.width = `${Math.min(100, 100 * part)}%`;
  track.append(bar);
  size.append(track, make("span", "", percent(part)));
  return size;
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
