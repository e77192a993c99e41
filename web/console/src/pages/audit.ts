// The last actions: by which key, what, on whom.

import { make } from "../../../chat/src/dom.ts";
import type { Action } from "../answers.ts";
import { badge, given } from "../controls.ts";
import { clock, counted, moment, NONE, words } from "../format.ts";
import { callPath } from "../route.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

const EVERY_MS = 5000;
/** The node remembers 500 actions of people and as many of programs: these must not push out those. */
const LIMIT = 1000;
const WELL = new Set(["done"]);

interface Row extends Action {
  /** Among actions of one millisecond that are the same. */
  place: number;
}

/** Counted from the oldest one, which stays where it is when others come. */
function numbered(actions: Action[]): Row[] {
  const seen = new Map<string, number>();
  const rows = actions.toReversed().map((action) => {
    const { at_ms, key, what, namespace, of } = action;
    const sign = JSON.stringify([at_ms, key, what, namespace, of]);
    const place = seen.get(sign) ?? 0;
    seen.set(sign, place + 1);
    return { ...action, place };
  });
  return rows.reverse();
}

export function audit(view: View): void {
  const found = make("p", "found");
  const table = new Table<Row>(
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
    ({ at_ms, key, what, namespace, of, place }) =>
      JSON.stringify([at_ms, key, what, namespace, of, place]),
    "Nobody has done anything since this node started.",
  );
  view.head("Audit", "What was done on this node, and which clients were put out, newest first.");
  view.add(found, table.element);
  view.every(EVERY_MS, async () => {
    const path = callPath("/v1/node/audit", { limit: LIMIT });
    const { actions } = await view.api.get<{ actions: Action[] }>(path, view.signal);
    table.render(numbered(actions));
    found.textContent = `The last ${counted(actions.length, "action")}, at ${clock(Date.now())}.`;
  });
}
