// Workers, webhooks and bridges one by one: who is attached, what waits, what was refused and lost; then sums of all.

import { make } from "../../../chat/src/dom.ts";
import type { BackendsHere } from "../answers.ts";
import { BackendCards } from "../backend-cards.ts";
import { Facts, section } from "../controls.ts";
import { bytes, clock, count, millis, NONE, percent, rate, words } from "../format.ts";
import { parseMetrics, Reading, type Sample } from "../metrics.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

const EVERY_MS = 5000;
const PREFIX = "sockeye_backend_";

interface Group {
  title: string;
  about: string;
  /** Counters without the prefix, and what a row of them is called. */
  rows: [metric: string, name: string][];
}

const GROUPS: Group[] = [
  {
    title: "Events",
    about: "From sockets to workers and endpoints.",
    rows: [
      ["events_total", "taken in"],
      ["redelivered_total", "sent once more"],
      ["overdue_total", "handled too slowly"],
      ["alone_total", "sent alone, after two lost workers"],
      ["late_total", "answered too late"],
      ["moved_total", "sockets given to another worker"],
    ],
  },
  {
    title: "Refused and lost",
    about: "No worker came in time, too much waited, or a worker was given up.",
    rows: [
      ["refused_total", "refused"],
      ["workers_lost_total", "worker lost"],
      ["dead_letters_total", "dead letters"],
    ],
  },
  {
    title: "Webhooks",
    about: "Calls of endpoints.",
    rows: [
      ["calls_total", "call"],
      ["commands_failed_total", "commands not carried out"],
    ],
  },
  {
    title: "Requests for sessions",
    about: "Verdicts of workers on newcomers.",
    rows: [["openings_total", "request"]],
  },
];

interface Row {
  name: string;
  sample: Sample;
  perSecond: number | null;
}

function table(title: string): Table<Row> {
  return new Table<Row>(
    title,
    [
      { head: "What", text: ({ name }) => name },
      { head: "In all", text: ({ sample }) => count(sample.value), figure: true },
      {
        head: "Each second",
        text: ({ perSecond }) => (perSecond === null ? NONE : rate(perSecond)),
        figure: true,
      },
    ],
    ({ name }) => name,
    "Nothing was counted.",
  );
}

export function backends(view: View): void {
  let before: Reading | undefined;
  const read = make("p", "found");
  const figures = make("div", "card");
  const facts = new Facts();
  figures.append(facts.element);
  const tables = GROUPS.map((group) => ({ group, table: table(group.title) }));
  const grid = make("div", "halves");
  grid.append(
    ...tables.map(({ group, table: list }) =>
      section(group.title, make("p", "about", group.about), list.element),
    ),
  );
  view.head("Backends", "Workers, webhooks, and the bridges of this node to Kafka and NATS.");
  const cards = new BackendCards(view);
  const sums = make("h2", "", "All backends together");
  view.add(cards.element, sums, figures, read, grid);
  view.every(EVERY_MS, async () => {
    const text = await view.api.text(`/metrics?prefix=${PREFIX}`, view.signal);
    const now = new Reading(parseMetrics(text, PREFIX), performance.now());
    facts.show(summary(now, before));
    const attached = now.value(`${PREFIX}workers`) + now.value(`${PREFIX}without_worker`);
    const none = attached === 0 ? "This node has no backend. " : "";
    for (const { group, table: list } of tables) list.render(rowsOf(group, now, before));
    const may = view.api.allowsEverywhere("read");
    const singly = may
      ? ""
      : " Single backends are for keys with the scope read in all namespaces.";
    read.textContent = `${none}Read at ${clock(Date.now())}. Rates are of the last ${EVERY_MS / 1000} s.${singly}`;
    before = now;
    if (may) cards.render(await view.api.get<BackendsHere>("/v1/node/backends", view.signal));
  });
}

function summary(now: Reading, before: Reading | undefined): [string, string][] {
  const of = (name: string) => now.value(`${PREFIX}${name}`);
  const calls = now.quantile(`${PREFIX}call_duration_seconds`, 0.99, before);
  return [
    ["Workers and endpoints that are well", count(of("workers"))],
    ["Backends without one", count(of("without_worker"))],
    ["Links served by shards", count(of("links_of_shards"))],
    ["Sockets", count(of("sockets"))],
    ["Sockets that wait for a worker", count(of("parked_sockets"))],
    ["Kept until handled", bytes(of("kept_bytes"))],
    ["Fullest queue", percent(of("queue_ratio"))],
    ["Newcomers that wait", count(of("openings_waiting"))],
    ["Calls, p99 at most", callTime(calls)],
  ];
}

function callTime(seconds: number | null): string {
  if (seconds === null) return NONE;
  return Number.isFinite(seconds) ? millis(seconds * 1000) : "above all bounds";
}

/** One row for each value of a label, such as the reason; all labels are in its name. */
function rowsOf({ rows }: Group, now: Reading, before: Reading | undefined): Row[] {
  return rows.flatMap(([metric, name]) =>
    now.samples
      .filter((sample) => sample.name === `${PREFIX}${metric}`)
      .map((sample) => {
        const labels = Object.values(sample.labels).map(words).join(", ");
        return {
          name: labels === "" ? name : `${name}: ${labels}`,
          sample,
          perSecond: now.perSecond(sample, before),
        };
      }),
  );
}
