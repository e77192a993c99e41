// The last ends of sessions, newest first, and how many of each reason.

import { make } from "../../../chat/src/dom.ts";
import type { End, Ends } from "../answers.ts";
import { badge, button, link, segments, type Tone } from "../controls.ts";
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
        node: ({ session }) => link(sessionHref(session), session, "mono"),
      },
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
  const reasons = make("div", "reasons");
  const found = make("p", "found");
  const list = table();
  const render = () => {
    const chosen = all.filter((end) => reason === "" || end.reason === reason);
    list.render(chosen);
    renderReasons(reasons, all, reason, (next) => {
      reason = next;
      rememberQuery("ends", { reason });
      render();
    });
  };
  const look = async () => {
    const path = callPath("/v1/node/ends", { limit });
    const answer = await view.api.get<Ends>(path, view.signal);
    all = answer.ends;
    const part = answer.complete ? "" : " A shard did not answer in time: some are missing.";
    found.textContent = `The last ${counted(all.length, "end")} of this node, at ${clock(Date.now())}.${part}`;
    render();
  };
  const limits = segments("How many", LIMITS, limit, (value) => {
    limit = value;
    void view.once(look);
  });
  view.head("Ends", "Why sessions of this node ended.", limits);
  view.add(reasons, found, list.element);
  view.every(EVERY_MS, look);
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
