// The text form of Prometheus metrics, as far as the page reads it.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string, prefix: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith(prefix)) continue;
    const [, name = "", labels = "", value = ""] = LINE.exec(line) ?? [];
    if (name !== "") samples.push({ name, labels: parseLabels(labels), value: Number(value) });
  }
  return samples;
}

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(LABEL))
    labels[name] = value.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));
  return labels;
}

/** A reading of all samples, which can be compared with an earlier one. */
export class Reading {
  #samples = new Map<string, number>();

  constructor(
    readonly samples: Sample[],
    readonly at: number,
  ) {
    for (const sample of samples) this.#samples.set(sampleKey(sample), sample.value);
  }

  value(name: string, labels: Record<string, string> = {}): number {
    return this.#samples.get(sampleKey({ name, labels })) ?? 0;
  }

  /** Of a counter that only grows; a process that began anew counts from 0. */
  perSecond(sample: Omit<Sample, "value">, before: Reading | undefined): number | null {
    if (!before || before.at >= this.at) return null;
    const key = sampleKey(sample);
    const now = this.#samples.get(key) ?? 0;
    const then = before.#samples.get(key) ?? 0;
    return ((now < then ? now : now - then) * 1000) / (this.at - before.at);
  }

  /** Where a share of a histogram's new observations lies: the bound of its bucket, in seconds; infinite above all bounds. */
  quantile(name: string, share: number, before: Reading | undefined): number | null {
    const growth = (labels: Record<string, string>) =>
      this.value(`${name}_bucket`, labels) - (before?.value(`${name}_bucket`, labels) ?? 0);
    const all = growth({ le: "+Inf" });
    if (all <= 0) return null;
    for (const { name: other, labels } of this.samples)
      if (other === `${name}_bucket` && growth(labels) >= share * all)
        return labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le);
    return null;
  }
}

function sampleKey({ name, labels }: Omit<Sample, "value">): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}=${value}`);
  return `${name} ${pairs.sort().join(" ")}`;
}
