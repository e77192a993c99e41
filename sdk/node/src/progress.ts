// Which items are handled. Handlers end in any order: the gateway is told a number up to which all are handled, and rows above it.

/** First and last number. */
type Row = [number, number];

/** Rows in one message: the gateway takes so many. */
const ROWS_MAX = 8_192;

const NONE: readonly number[] = Object.freeze([]);

export interface Said {
  handled: number;
  beside: readonly number[];
  begun: number;
}

export class Progress {
  /** The last item that came, and the last one that handlers got. */
  received = 0;
  begun = 0;
  /** All up to this number were told to be handled, but for those in `#open`, and for rows that wait. */
  #told = 0;
  /** How often each item is held. The lowest number is first. */
  readonly #open = new Map<number, number>();
  /** The same for items that the gateway knows nothing of, in any order. */
  readonly #fresh = new Map<number, number>();
  /** Items that nothing held any more, at that moment. */
  #free: number[] = [];
  #rows: Row[] = [];

  #holds(number: number): Map<number, number> {
    return number > this.#told ? this.#fresh : this.#open;
  }

  /** The item is not handled before as many calls of `release`. What was told to be handled stays so. */
  hold(number: number): void {
    const holds = this.#holds(number);
    const before = holds.get(number);
    if (before !== undefined || holds === this.#fresh) holds.set(number, (before ?? 0) + 1);
  }

  /** It may be held again until the gateway is told. */
  release(number: number): void {
    const holds = this.#holds(number);
    const before = holds.get(number);
    if (!before) return;
    holds.set(number, before - 1);
    if (before === 1) this.#free.push(number);
  }

  /** Something is to be said. */
  get changed(): boolean {
    return this.begun > this.#told || this.#free.length > 0 || this.#rows.length > 0;
  }

  /** What the gateway is to be told now. */
  next(): Said {
    const { begun } = this;
    if (this.#free.length === 0 && this.#open.size === 0 && this.#fresh.size === 0 && this.#rows.length === 0) {
      this.#told = Math.max(this.#told, begun);
      return { handled: begun, beside: NONE, begun };
    }
    this.#settle();
    this.#begin();
    const [oldest] = this.#open.keys();
    const handled = oldest === undefined ? this.begun : oldest - 1;
    this.#rows = this.#rows.filter(([, last]) => last > handled);
    return { handled, beside: this.#rows.splice(0, ROWS_MAX).flat(), begun: this.begun };
  }

  /** The link was lost, and rows with it: all are said again. */
  again(): void {
    this.#rows = [];
    let [first] = this.#open.keys();
    for (const number of this.#open.keys()) {
      if (number > first) this.#rows.push([first, number - 1]);
      first = number + 1;
    }
    if (first <= this.#told) this.#rows.push([first, this.#told]);
  }

  #settle(): void {
    const settled: number[] = [];
    for (const number of this.#free) {
      const holds = this.#holds(number);
      if (holds.get(number) !== 0) continue;
      holds.delete(number);
      if (holds === this.#open) settled.push(number);
    }
    this.#free = [];
    if (settled.length > 0) this.#add(settled.map((number) => [number, number]));
  }

  #begin(): void {
    if (this.#fresh.size > 0 || this.#open.size > 0) {
      const fresh = [...this.#fresh.keys()].sort((one, other) => one - other);
      const rows: Row[] = [];
      let first = this.#told + 1;
      for (const number of fresh) {
        if (number > first) rows.push([first, number - 1]);
        first = number + 1;
        this.#open.set(number, this.#fresh.get(number)!);
      }
      if (first <= this.begun) rows.push([first, this.begun]);
      this.#fresh.clear();
      this.#add(rows);
    }
    this.#told = Math.max(this.#told, this.begun);
  }

  /** Rows are in order, and those that touch are one. */
  #add(rows: Row[]): void {
    const all = [...this.#rows, ...rows].sort(([one], [other]) => one - other);
    this.#rows = [];
    for (const row of all) {
      const last = this.#rows.at(-1);
      if (last && last[1] + 1 >= row[0]) last[1] = Math.max(last[1], row[1]);
      else this.#rows.push(row);
    }
  }
}
