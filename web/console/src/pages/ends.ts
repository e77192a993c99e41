// The last ends of sessions, newest first, and how many of each reason.

import { make } from "../../../chat/src/dom.ts";
import type { End, Ends } from "../answers.ts";
import { badge, button, link, segments, type Tone } from "../controls.ts";
import { missing, places, whereChoice, whereOf } from "../everywhere.ts";
import { bytes, clock, count, counted, millis, moment, NONE, words } from "../format.ts";
import { sessionHref, callPath, rememberQuery } from "../route.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

const EVERY_MS = 3000;

const LIMITS: [string, string][] = [
  ["100", "Last 100"],
  ["300", "300"],
  ["1000", "1,000"],
];

/** The client or the operator wanted these; the others are somebody's trouble. */
const WANTED = new Set(["transport_close", "client_disconnect", "server_close", "shutting_down"]);

function tone(reason: string): Tone {
  return WANTED.has(reason) ? "calm" : "warn";
}

const table = () =>
  new Table<End>(
    "Ends",
    [
      { head: "Time", text: ({ at_ms }) => moment(at_ms) },
      {
        head: "Reason",
        text: ({ reason }) => words(reason),
        node: ({ reason }) => badge(words(reason), tone(reason)),
      },
      { head: "User", text: ({ user }) => user ?? NONE, className: "name" },
      {
        head: "Session",
        text: ({ session }) => session,
        node: ({ session, node }) => link(sessionHref(session, node), session, "mono"),
      },
      { head: "Node", text: ({ node }) => (node === undefined ? NONE : `${node}`), figure: true },
      { head: "Address", text: ({ address }) => address, className: "mono" },
      { head: "Connection", text: ({ protocol, transport }) => `${protocol}, ${transport}` },
      { head: "Namespace", text: ({ namespace }) => namespace ?? NONE, className: "name" },
      { head: "Waiting", text: ({ waiting_bytes }) => bytes(waiting_bytes), figure: true },
      { head: "Silent", text: ({ silent_ms }) => millis(silent_ms), figure: true },
      { head: "Rejected", text: ({ rejections }) => count(rejections), figure: true },
    ],
    ({ at_ms, session, socket }) => `${at_ms} ${session} ${socket}`,
    "No session has ended like this.",
  );

export function ends(view: View): void {
  let reason = view.route.query.get("reason") ?? "";
  let all: End[] = [];
  let limit = "100";
  let where = whereOf(view.route.query);
  let asked = 0;
  const remember = () => rememberQuery("ends", { reason, where: where === "nodes" ? where : "" });
  const reasons = make("div", "reasons");
  const found = make("p", "found");
  const list = table();
  const render = () => {
    const chosen = all.filter((end) => reason === "" || end.reason === reason);
    list.render(chosen);
    renderReasons(reasons, all, reason, (next) => {
      reason = next;
      remember();
      render();
    });
  };
  const look = async () => {
    asked += 1;
    const mine = asked;
    const path = callPath(`/v1/${where}/ends`, { limit });
    const answer = await view.api.get<Ends>(path, view.signal);
    // A slower answer to the question before must not stand under this one.
    if (mine !== asked) return;
    all = answer.ends;
    const part = missing(answer.complete, answer.nodes);
    found.textContent = `The last ${counted(all.length, "end")} ${places(where, answer.nodes)}, at ${clock(Date.now())}.${part}`;
    render();
  };
  const limits = segments("How many", LIMITS, limit, (value) => {
    limit = value;
    void view.once(look);
  });
  const choice = whereChoice("Which ends", where, (chosen) => {
    where = chosen;
    remember();
    void view.once(look);
  });
  view.head("Ends", "Why sessions ended.", choice, limits);
  view.add(reasons, found, list.element);
  // All nodes are asked only when a person wants it.
  if (where === "nodes") void view.once(look);
  view.every(EVERY_MS, async () => {
    if (where === "node") await look();
  });
}

function renderReasons(
  place: HTMLElement,
  all: End[],
  chosen: string,
  choose: (reason: string) => void,
): void {
  const counts = new Map<string, number>();
  for (const { reason } of all) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  // A reason that is chosen can be given up again, also when its last end is gone.
  if (chosen !== "" && !counts.has(chosen)) counts.set(chosen, 0);
  const rows = [...counts].sort(([a, n], [b, m]) => m - n || a.localeCompare(b));
  const sign = JSON.stringify([rows, chosen]);
  if (place.dataset.sign === sign) return;
  place.dataset.sign = sign;
  const focused = (document.activeElement as HTMLElement | null)?.dataset.reason;
  place.replaceChildren(
    ...rows.map(([reason, n]) => {
      const pressed = reason === chosen;
      const press = button("", "reason", () => choose(pressed ? "" : reason));
      press.setAttribute("aria-pressed", String(pressed));
      press.dataset.reason = reason;
      press.append(make("span", "", words(reason)), make("b", "", count(n)));
      return press;
    }),
  );
  if (focused !== undefined)
    place.querySelector<HTMLElement>(`[data-reason="${CSS.escape(focused)}"]`)?.focus();
}
