// Whether it is well: figures of now, the last hour, and what is near its limit.

import { make } from "../../../chat/src/dom.ts";
import type { Overview, Point } from "../answers.ts";
import { badge, button, given, segments, type Tone } from "../controls.ts";
import { atMost, bytes, cores, count, duration, millis, NONE, percent, rate } from "../format.ts";
import { Plot, type PlotOptions, sparkline } from "../plot.ts";
import type { View } from "../view.ts";

interface Tile {
  name: string;
  of: (point: Point) => number | null;
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
  { name: "Message p99", of: (p) => p.message_p99_ms, format: atMost },
  { name: "Turn p99", of: (p) => p.turn_p99_ms, format: atMost },
  { name: "Connects /s", of: (p) => p.connects, format: rate },
  { name: "Rejected /s", of: (p) => p.rejected, format: rate },
];

function plots(view: View): PlotOptions[] {
  const limits = () => view.feed.last?.limits;
  return [
    {
      title: "People",
      series: [
        { name: "sessions", of: (p) => p.sessions },
        { name: "connections", of: (p) => p.connections },
      ],
      format: count,
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
        { name: "message", of: (p) => p.message_p99_ms },
        { name: "turn", of: (p) => p.turn_p99_ms },
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
        { name: "connects/s", of: (p) => p.connects },
        { name: "ends/s", of: (p) => p.ends },
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
  #conditions = make("ul", "conditions");
  #about = make("p", "about");
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
    view.add(this.#conditions, this.#tiles, grid);
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
    this.#renderTiles(points, last);
    const newest = points.at(-1)?.t ?? now;
    const span = { from: newest - this.#minutes * 60_000, to: newest + 1000 };
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

  #renderTiles(points: Point[], last: Overview): void {
    const newest = points.at(-1);
    this.#tiles.replaceChildren(
      ...TILES.map(({ name, of, format, limit }) => {
        const tile = make("div", "tile");
        const value = newest ? of(newest) : null;
        const figure = make("dd", "tile-value", value === null ? NONE : format(value));
        tile.append(make("dt", "", name), figure);
        const bound = limit?.(last) ?? null;
        if (bound !== null && value !== null && bound > 0)
          tile.append(...share(value / bound, `${percent(value / bound)} of ${format(bound)}`));
        else {
          const shape = make("dd", "tile-shape");
          shape.append(sparkline(points, of));
          tile.append(shape);
        }
        return tile;
      }),
    );
  }
}

/** How near a limit is, as a bar and in words. */
function share(part: number, text: string): HTMLElement[] {
  const bar = make("dd", `bar ${part > 0.9 ? "bad" : part > 0.8 ? "warn" : ""}`);
  const fill = make("i");
  fill.style.width = `${Math.min(100, part * 100)}%`;
  bar.append(fill);
  return [bar, make("dd", "tile-note", text)];
}
