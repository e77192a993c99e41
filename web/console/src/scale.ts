// Arithmetic of plots: pixels of time, round numbers on the axis.

import type { Point } from "./answers.ts";

export type Measure = (point: Point) => number | null;

export interface Span {
  from: number;
  to: number;
}

/**
 * One value for each step of time: the largest of its seconds, so that no peak is lost. `null`
 * where the node has none.
 */
export function peaks(points: Point[], measure: Measure, span: Span, steps: number) {
  const values = new Array<number | null>(steps).fill(null);
  const width = (span.to - span.from) / steps;
  for (const point of points) {
    const step = Math.floor((point.t - span.from) / width);
    const value = measure(point);
    if (value === null || step < 0 || step >= steps) continue;
    values[step] = Math.max(values[step] ?? 0, value);
  }
  return values;
}

/** The next round number, for three lines that divide the axis. */
export function roundTop(value: number, base = 10): number {
  if (value <= 0) return base === 10 ? 1 : 1024;
  const unit = base ** Math.floor(Math.log(value) / Math.log(base));
  const steps = base === 10 ? [1, 2, 4, 6, 8, 10] : [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
  for (const step of steps) if (value <= step * unit) return step * unit;
  return base * unit;
}

const MINUTE_MS = 60_000;

/** Times for the axis: full steps of the zone that is so many minutes behind UTC; so many at most. */
export function timeTicks(
  span: Span,
  most: number,
  behind = new Date(span.to).getTimezoneOffset(),
): number[] {
  const minutes = (span.to - span.from) / MINUTE_MS;
  const step = [1, 2, 5, 10, 15, 20, 30].find((every) => minutes / every <= most) ?? 60;
  const ticks: number[] = [];
  const shift = behind * MINUTE_MS;
  const every = step * MINUTE_MS;
  const first = Math.ceil((span.from - shift) / every) * every + shift;
  for (let t = first; t <= span.to; t += every) ticks.push(t);
  return ticks;
}

/** A line through the values that are there; it breaks where one is missing. */
export function linePath(
  values: (number | null)[],
  x: (step: number) => number,
  y: (value: number) => number,
): string {
  let path = "";
  let drawing = false;
  values.forEach((value, step) => {
    if (value !== null)
      path += `${drawing ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    drawing = value !== null;
  });
  return path;
}

/** The same down to the ground, for a tint under the line. */
export function areaPath(
  values: (number | null)[],
  x: (step: number) => number,
  y: (value: number) => number,
): string {
  let path = "";
  values.forEach((value, step) => {
    if (value === null) return;
    const top = `${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    const ground = `${x(step).toFixed(1)} ${y(0).toFixed(1)}`;
    const begins = (values[step - 1] ?? null) === null;
    const ends = (values[step + 1] ?? null) === null;
    path += begins ? `M${ground}L${top}` : `L${top}`;
    if (ends) path += `L${ground}Z`;
  });
  return path;
}
