// Figures as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clockFormat = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const minuteFormat = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** A value that the node does not have. */
export const NONE = "–";

export const count = (value: number): string => whole.format(value);

/** Of events in a second: one decimal where it says something. */
export function rate(value: number): string {
  if (value === 0) return "0";
  return value < 9.95 ? value.toFixed(1) : count(value);
}

export const cores = (value: number): string => value.toFixed(2);

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  let rest = value;
  while (rest >= 1024 && step < units.length - 1) {
    rest /= 1024;
    step += 1;
  }
  return `${step === 0 || rest >= 100 ? count(rest) : rest.toFixed(1)} ${units[step]}`;
}

export function millis(value: number | null): string {
  if (value === null) return NONE;
  if (value === 0) return "0 ms";
  if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
  return `${value < 1 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : count(value)} ms`;
}

/** The bound of a histogram: the true value is not above it. */
export const atMost = (value: number): string => `≤ ${trimmed(millis(value))}`;

/** Where a histogram ends, more is not known. */
export const above = (value: number): string => `> ${trimmed(millis(value))}`;

/** Round numbers, such as those of an axis, need no decimals. */
export const trimmed = (figure: string): string => figure.replace(/\.0+(?!\d)/, "");

export const percent = (share: number): string =>
  `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** The browser's zone, in which all times are shown. */
export function zone(): string {
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts();
  return parts.find(({ type }) => type === "timeZoneName")?.value ?? "";
}

export const clock = (ms: number): string => clockFormat.format(ms);

export const minute = (ms: number): string => minuteFormat.format(ms);

/** With the day unless that is today. */
export function moment(ms: number): string {
  const sameDay = new Date(ms).toDateString() === new Date().toDateString();
  return sameDay ? clock(ms) : `${dayFormat.format(ms)} ${clock(ms)}`;
}

/** `ping_timeout` as words. */
export const words = (name: string): string => name.replaceAll("_", " ");

/** The right word for so many: `1 room`, `3 rooms`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}
