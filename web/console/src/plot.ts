// A plot of the last minutes: lines over time, with one reading line that all plots share.

import { make } from "../../chat/src/dom.ts";
import type { Point } from "./answers.ts";
import { above, clock, minute, NONE, trimmed } from "./format.ts";
import {
  areaPath,
  linePath,
  type Measure,
  peaks,
  roundTop,
  type Span,
  timeTicks,
} from "./scale.ts";
import { draw } from "./svg.ts";

export interface Series {
  name: string;
  of: Measure;
  /** Whether the value is above what is told of it. */
  over?: (point: Point) => boolean;
}

export interface PlotOptions {
  title: string;
  series: Series[];
  format: (value: number) => string;
  /** Of the axis, if that is another one. */
  scale?: (value: number) => string;
  /** Binary sizes have other round numbers. */
  base?: 2 | 10;
  /** The axis reaches at least so far. */
  least?: number;
  /** Drawn when the values come near it. */
  limit?: () => number | null;
}

const HEIGHT = 148;
const LEFT = 58;
const RIGHT = 6;
const TOP = 8;
const BOTTOM = 20;
const STEP_PX = 2;
const GRID = 2;
const TICK_PX = 36;

export class Plot {
  readonly element = make("figure", "plot card");
  #svg = draw("svg", { "aria-hidden": "true" });
  #area = make("div", "plot-area");
  #values: HTMLElement[] = [];
  #width = 0;
  #span: Span = { from: 0, to: 1 };
  #lines: (number | null)[][] = [];
  /** The steps of each line that are above what is told of them. */
  #overs: (number | null)[][] = [];

  constructor(
    readonly options: PlotOptions,
    readonly read: (time: number | undefined) => void,
  ) {
    const legend = make("figcaption", "legend");
    legend.append(make("strong", "", options.title));
    options.series.forEach(({ name }, index) => {
      const value = make("b");
      const item = make("span", `key line-${index}`);
      item.append(make("i"), `${name} `, value);
      this.#values.push(value);
      legend.append(item);
    });
    this.#area.append(this.#svg);
    this.element.append(legend, this.#area);
    this.#listen();
  }

  /** A plot is as wide as its place; only a known width can be drawn in. */
  watchWidth(changed: () => void, signal: AbortSignal): void {
    const observer = new ResizeObserver(([entry]) => {
      this.#width = Math.floor(entry?.contentRect.width ?? 0);
      changed();
    });
    observer.observe(this.#area);
    signal.addEventListener("abort", () => observer.disconnect());
  }

  render(points: Point[], span: Span, time: number | undefined): void {
    this.#span = span;
    const inner = this.#width - LEFT - RIGHT;
    if (inner < 40) return;
    const steps = Math.floor(inner / STEP_PX);
    const { series, limit, least = 0 } = this.options;
    this.#lines = series.map(({ of }) => peaks(points, of, span, steps));
    this.#overs = series.map(({ over }) =>
      over ? peaks(points, (point) => Number(over(point)), span, steps) : [],
    );
    const highest = Math.max(least, ...this.#lines.flat().map((value) => value ?? 0));
    const bound = limit?.() ?? null;
    const nearBound = bound !== null && highest > bound / 2;
    const top = roundTop(nearBound ? Math.max(highest, bound) : highest, this.options.base);
    const y = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    const x = (step: number) => LEFT + (step + 0.5) * STEP_PX;
    this.#svg.setAttribute("viewBox", `0 0 ${this.#width} ${HEIGHT}`);
    this.#svg.replaceChildren(...this.#frame(top, y), ...this.#curves(x, y));
    if (nearBound) this.#svg.append(this.#level(y(bound), "limit"));
    this.#readAt(points, time, y);
  }

  #frame(top: number, y: (value: number) => number): SVGElement[] {
    const parts: SVGElement[] = [];
    for (let line = 0; line <= GRID; line += 1) {
      const value = (top * line) / GRID;
      parts.push(this.#level(y(value), "grid"));
      const { scale = this.options.format } = this.options;
      const text = trimmed(scale(value));
      parts.push(draw("text", { x: LEFT - 8, y: y(value) + 4, class: "scale" }, text));
    }
    for (const t of timeTicks(this.#span, (this.#width - LEFT - RIGHT) / (TICK_PX * 1.4))) {
      const at = this.#xOf(t);
      // Half a label must fit on either side of its line.
      if (at < LEFT || at > this.#width - TICK_PX / 2) continue;
      parts.push(draw("text", { x: at, y: HEIGHT - 4, class: "tick" }, minute(t)));
    }
    return parts;
  }

  #level(y: number, className: string): SVGElement {
    const place = { x1: LEFT, x2: this.#width - RIGHT, y1: y, y2: y };
    return draw("line", { ...place, class: className });
  }

  #curves(x: (step: number) => number, y: (value: number) => number): SVGElement[] {
    const [first = []] = this.#lines;
    const tint = draw("path", { d: areaPath(first, x, y), class: "tint" });
    const lines = this.#lines.map((values, index) =>
      draw("path", { d: linePath(values, x, y), class: `line line-${index}` }),
    );
    return [tint, ...lines.reverse()];
  }

  /** The values under the reading line, else the newest ones. */
  #readAt(points: Point[], time: number | undefined, y: (value: number) => number): void {
    const steps = this.#lines[0]?.length ?? 0;
    const step = time === undefined ? -1 : Math.floor(this.#share(time) * steps);
    const newest = points.at(-1);
    const values = this.options.series.map(({ of }, index) =>
      time === undefined ? (newest ? of(newest) : null) : (this.#lines[index]?.[step] ?? null),
    );
    const texts = this.options.series.map(({ over }, index) => {
      const value = values[index] ?? null;
      const isOver = time === undefined ? newest && over?.(newest) : this.#overs[index]?.[step];
      return value === null ? "" : isOver ? above(value) : this.options.format(value);
    });
    texts.forEach((text, index) => {
      const place = this.#values[index];
      if (place) place.textContent = text || NONE;
    });
    this.#describe(time, texts);
    if (time === undefined) return;
    const at = this.#xOf(time);
    this.#svg.append(
      draw("line", { x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM, class: "reading" }),
      this.#timeBeside(at, time),
    );
    values.forEach((value, index) => {
      if (value === null) return;
      this.#svg.append(draw("circle", { cx: at, cy: y(value), r: 3, class: `line-${index}` }));
    });
  }

  /** In the plot: a line more above it would push the plot away from the pointer. */
  #timeBeside(at: number, time: number): SVGElement {
    const left = at > this.#width / 2;
    const place = { x: left ? at - 5 : at + 5, y: TOP + 9, class: "time" };
    return draw("text", { ...place, "text-anchor": left ? "end" : "start" }, clock(time));
  }

  /** For readers who do not see it. A focused plot speaks when it is read, not each second. */
  #describe(time: number | undefined, texts: string[]): void {
    if (document.activeElement === this.#area && time === undefined) return;
    const { series, title } = this.options;
    const said = series.map(({ name }, index) => `${name} ${texts[index] || "none"}`);
    const when = time === undefined ? "now" : clock(time);
    this.#area.setAttribute("aria-label", `${title}, read over time`);
    this.#area.setAttribute("aria-valuetext", `${when}: ${said.join(", ")}`);
    const share = time === undefined ? 1 : this.#share(time);
    this.#area.setAttribute("aria-valuenow", String(Math.round(share * 100)));
  }

  #listen(): void {
    this.#area.tabIndex = 0;
    this.#area.setAttribute("role", "slider");
    this.#area.setAttribute("aria-valuemin", "0");
    this.#area.setAttribute("aria-valuemax", "100");
    this.#area.addEventListener("pointermove", ({ offsetX }) => {
      const share = (offsetX - LEFT) / (this.#width - LEFT - RIGHT);
      this.read(share < 0 || share > 1 ? undefined : this.#timeAt(share));
    });
    this.#area.addEventListener("pointerleave", () => this.read(undefined));
    this.#area.addEventListener("blur", () => this.read(undefined));
    this.#area.addEventListener("keydown", (event) => this.#key(event));
  }

  #reading = 1;

  #key(event: KeyboardEvent): void {
    const moves: Record<string, number> = {
      ArrowLeft: this.#reading - 0.01,
      ArrowRight: this.#reading + 0.01,
      ArrowDown: this.#reading - 0.01,
      ArrowUp: this.#reading + 0.01,
      PageDown: this.#reading - 0.1,
      PageUp: this.#reading + 0.1,
      Home: 0,
      End: 1,
    };
    const to = moves[event.key];
    if (event.key === "Escape") this.read(undefined);
    if (to === undefined) return;
    event.preventDefault();
    this.#reading = Math.min(0.999, Math.max(0, to));
    this.read(this.#timeAt(this.#reading));
  }

  #timeAt(share: number): number {
    return this.#span.from + share * (this.#span.to - this.#span.from);
  }

  #share(time: number): number {
    return Math.min(0.9999, (time - this.#span.from) / (this.#span.to - this.#span.from));
  }

  #xOf(time: number): number {
    return LEFT + this.#share(time) * (this.#width - LEFT - RIGHT);
  }
}

/** The last two minutes in the corner of a figure: shape only. */
export function sparkline(points: Point[], of: Measure): SVGSVGElement {
  const [width, height] = [96, 26];
  const to = points.at(-1)?.t ?? 0;
  const values = peaks(points, of, { from: to - 120_000, to: to + 1 }, width / 2);
  const known = values.filter((value) => value !== null);
  const highest = Math.max(0, ...known);
  // A shape needs room: the ground is near the lowest value, but noise stays small.
  const lowest = Math.min(highest, ...known);
  const ground = Math.max(0, Math.min(lowest - (highest - lowest), 0.7 * highest));
  const range = highest - ground || 1;
  const x = (step: number) => step * 2 + 1;
  const y = (value: number) => height - 1 - ((height - 3) * Math.max(0, value - ground)) / range;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "spark" });
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.append(
    draw("path", { d: areaPath(values, x, y), class: "tint" }),
    draw("path", { d: linePath(values, x, y), class: "line line-0" }),
  );
  return svg;
}
