// The last actions: by which key, what, on whom.

import { make } from "../../../chat/src/dom.ts";
import type { Action } from "../answers.ts";
import { badge, given } from "../controls.ts";
import { clock, counted, moment, NONE, words } from "../format.ts";
import { callPath } from "../route.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

const EVERY_MS = 5000;
const LIMIT = 500;
const WELL = new Set(["done"]);

export function audit(view: View): void {
  const found = make("p", "found");
  const table = new Table<Action>(
    "Actions",
    [
      { head: "Time", text: ({ at_ms }) => moment(at_ms) },
      { head: "Key", text: ({ key }) => key, node: ({ key }) => given(key) },
      { head: "From", text: (action) => (action.console ? "console" : "program") },
      { head: "What", text: ({ what }) => words(what) },
      { head: "Namespace", text: ({ namespace }) => namespace ?? NONE, className: "name" },
      { head: "Of", text: ({ of }) => of || NONE, className: "name" },
      {
        head: "Outcome",
        text: ({ outcome }) => outcome,
        node: ({ outcome }) => badge(words(outcome), WELL.has(outcome) ? "ok" : "warn"),
      },
    ],
    ({ at_ms, key, what, of }) => `${at_ms} ${key} ${what} ${of}`,
    "Nobody has done anything since this node started.",
  );
  view.head("Audit", "What was done by hand or by program on this node, newest first.");
  view.add(found, table.element);
  view.every(EVERY_MS, async () => {
    const path = callPath("/v1/node/audit", { limit: LIMIT });
    const { actions } = await view.api.get<{ actions: Action[] }>(path, view.signal);
    table.render(actions);
    found.textContent = `The last ${counted(actions.length, "action")}, at ${clock(Date.now())}.`;
  });
}
