// Whether it is well: figures of now, the last hour, and what is near its limit.

import { make } from "../../../chat/src/dom.ts";
import type { Overview, Point } from "../answers.ts";
import { badge, button, given, section, segments, type Tone } from "../controls.ts";
import {
  above,
  atMost,
  bytes,
  cores,
  count,
  duration,
  millis,
  NONE,
  percent,
  rate,
  words,
} from "../format.ts";
import { Plot, type PlotOptions, type Series, sparkline } from "../plot.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

interface Tile extends Series {
  format: (value: number) => string;
  limit?: (overview: Overview) => number | null;
}

const TILES: Tile[] = [
  { name: "Sessions", of: (p) => p.sessions, format: count },
  {
    name: "Connections",
    of: (p) => p.connections,
    format: count,
    limit: ({ limits }) => limits.connections,
  },
  {
    name: "Memory",
    of: (p) => p.memory_bytes,
    format: bytes,
    limit: ({ limits }) => limits.memory_bytes,
  },
  { name: "Cores used", of: (p) => p.cpu, format: cores },
  { name: "Messages in /s", of: (p) => p.messages_in, format: rate },
  { name: "Deliveries /s", of: (p) => p.deliveries, format: rate },
  {
    name: "Message p99",
    of: (p) => p.message_p99_ms,
    over: (p) => p.message_p99_over,
    format: atMost,
  },
  { name: "Turn p99", of: (p) => p.turn_p99_ms, over: (p) => p.turn_p99_over, format: atMost },
  { name: "Sockets joined /s", of: (p) => p.connects, format: rate },
  { name: "Rejected /s", of: (p) => p.rejected, format: rate },
];

function plots(view: View): PlotOptions[] {
  const limits = () => view.feed.last?.limits;
  return [
    {
      title: "Clients",
      series: [
        { name: "sessions", of: (p) => p.sessions },
        { name: "connections", of: (p) => p.connections },
      ],
      format: count,
      least: 2,
      limit: () => limits()?.connections ?? null,
    },
    {
      title: "Messages",
      series: [
        { name: "deliveries/s", of: (p) => p.deliveries },
        { name: "in/s", of: (p) => p.messages_in },
      ],
      format: rate,
    },
    {
      title: "Latency, p99",
      series: [
        { name: "message", of: (p) => p.message_p99_ms, over: (p) => p.message_p99_over },
        { name: "turn", of: (p) => p.turn_p99_ms, over: (p) => p.turn_p99_over },
      ],
      format: atMost,
      scale: millis,
    },
    {
      title: "Memory",
      series: [{ name: "resident", of: (p) => p.memory_bytes }],
      format: bytes,
      base: 2,
      limit: () => limits()?.memory_bytes ?? null,
    },
    {
      title: "Coming and going",
      series: [
        { name: "sockets joined/s", of: (p) => p.connects },
        { name: "left/s", of: (p) => p.ends },
        { name: "rejected/s", of: (p) => p.rejected },
      ],
      format: rate,
    },
    { title: "Processor", series: [{ name: "cores used", of: (p) => p.cpu }], format: cores },
  ];
}

const TONES: Record<string, Tone> = { critical: "bad", info: "calm" };

const SPANS: [string, string][] = [
  ["5", "5 min"],
  ["15", "15 min"],
  ["60", "1 hour"],
];

type Refusal = Overview["refusals"][number];

const refusalsTable = () =>
  new Table<Refusal>(
    "Refused and cut",
    [
      { head: "What", text: ({ what }) => what },
      { head: "Reason", text: ({ reason }) => words(reason), className: "name" },
      { head: "Since the start", text: ({ times }) => count(times), figure: true },
    ],
    ({ what, reason }) => `${what} ${reason}`,
    "Nothing was refused since this node began.",
  );

export function overview(view: View): void {
  const page = new OverviewPage(view);
  page.open();
}

class OverviewPage {
  #minutes = 15;
  #paused = false;
  #time: number | undefined;
  #pending = false;
  #tiles = make("dl", "tiles");
  #figures: Figure[] = TILES.map((tile) => new Figure(tile));
  #conditions = make("ul", "conditions");
  #about = make("p", "about");
  #refusals = refusalsTable();
  #frozen: { points: Point[]; now: number } | undefined;
  #plots: Plot[];

  constructor(readonly view: View) {
    this.#plots = plots(view).map(
      (options) =>
        new Plot(options, (time) => {
          this.#time = time;
          this.#changed();
        }),
    );
  }

  open(): void {
    const { view } = this;
    const pause = button("Pause", "plain", () => {
      this.#paused = !this.#paused;
      this.#frozen = undefined;
      pause.textContent = this.#paused ? "Go on" : "Pause";
      this.#changed();
    });
    const spans = segments("Time shown", SPANS, String(this.#minutes), (value) => {
      this.#minutes = Number(value);
      this.#changed();
    });
    view.head("Overview", "", spans, pause);
    view.root.querySelector(".about")?.replaceWith(this.#about);
    const grid = make("div", "plots");
    for (const plot of this.#plots) {
      grid.append(plot.element);
      plot.watchWidth(() => this.#changed(), view.signal);
    }
    this.#tiles.append(...this.#figures.map(({ element }) => element));
    const refused = section("Refused and cut, by reason", this.#refusals.element);
    view.add(this.#conditions, this.#tiles, grid, refused);
    view.feed.watched = true;
    view.signal.addEventListener("abort", () => {
      view.feed.watched = false;
    });
    view.busy(view.feed.last === undefined);
    view.feed.listen(() => {
      view.busy(false);
      this.#changed();
    }, view.signal);
    view.feed.start();
    this.#render();
  }

  #changed(): void {
    if (this.#pending) return;
    this.#pending = true;
    requestAnimationFrame(() => {
      this.#pending = false;
      if (!this.view.signal.aborted) this.#render();
    });
  }

  #render(): void {
    const { feed } = this.view;
    const { last } = feed;
    if (!last) return;
    if (this.#paused && !this.#frozen)
      this.#frozen = { points: [...feed.points], now: last.now_ms };
    const { points, now } = this.#frozen ?? { points: feed.points, now: last.now_ms };
    const age = duration(last.now_ms / 1000 - last.node.started);
    const state = this.#paused ? " Paused." : "";
    this.#about.textContent = `Node ${last.node.number}, ${last.node.name}: ${last.node.state}, up ${age}.${state}`;
    this.#renderConditions();
    this.#refusals.render(last.refusals);
    for (const figure of this.#figures) figure.render(points, last);
    const newest = points.at(-1)?.t ?? now;
    const span = { from: newest - this.#minutes * 60_000, to: newest + 1000 };
    // What is read has gone out of the plot on its left.
    if (this.#time !== undefined && this.#time < span.from) this.#time = undefined;
    for (const plot of this.#plots) plot.render(points, span, this.#time);
  }

  #renderConditions(): void {
    const { conditions } = this.view.feed;
    const sign = JSON.stringify(conditions);
    if (this.#conditions.dataset.sign === sign) return;
    this.#conditions.dataset.sign = sign;
    this.#conditions.hidden = conditions.length === 0;
    this.#conditions.replaceChildren(
      ...conditions.map(({ name, severity, sentence, docs }) => {
        const item = make("li");
        const text = make("span", "condition-text");
        text.append(given(sentence));
        item.append(badge(severity, TONES[severity] ?? "warn"), text);
        item.append(
          make("code", "", name),
          make("code", "", `docs/${docs.replace(/^docs\//, "")}`),
        );
        return item;
      }),
    );
  }
}

/** One figure of now, its last minutes, or how near it is to its limit. Its text stays, so that one can mark it. */
class Figure {
  readonly element = make("div", "tile");
  #value = make("dd", "tile-value");
  #below: Element[] = [];

  constructor(readonly tile: Tile) {
    this.element.append(make("dt", "", tile.name), this.#value);
  }

  render(points: Point[], last: Overview): void {
    const { of, over, format, limit } = this.tile;
    const newest = points.at(-1);
    const value = newest ? of(newest) : null;
    const isOver = newest !== undefined && over?.(newest) === true;
    const text = value === null ? NONE : isOver ? above(value) : format(value);
    if (this.#value.textContent !== text) this.#value.textContent = text;
    const bound = limit?.(last) ?? null;
    for (const element of this.#below) element.remove();
    this.#below =
      bound !== null && value !== null && bound > 0
        ? share(value / bound, `${percent(value / bound)} of ${format(bound)}`)
        : [shape(points, of)];
    this.element.append(...this.#below);
  }
}

function shape(points: Point[], of: Tile["of"]): HTMLElement {
  const place = make("dd", "tile-shape");
  place.append(sparkline(points, of));
  return place;
}

/** How near a limit is, as a bar and in words. */
function share(part: number, text: string): HTMLElement[] {
  const bar = make("dd", `bar ${part > 0.9 ? "bad" : part > 0.8 ? "warn" : ""}`);
  const fill = make("i");
  fill.style.width = `${Math.min(100, part * 100)}%`;
  bar.append(fill);
  return [bar, make("dd", "tile-note", text)];
}
