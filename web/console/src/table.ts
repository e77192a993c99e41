// Tables that are filled again and again: rows are kept by key, so that focus and selection stay.

import { make } from "../../chat/src/dom.ts";

export interface Column<T> {
  head: string;
  /** The cell's text, and the sign that its content changed. */
  text: (row: T) => string;
  /** The cell's content where text is not enough. */
  node?: (row: T) => Node;
  /** Right-aligned, like all figures. */
  figure?: boolean;
  className?: string;
}

/** Rows with the same key are told apart by their order. */
function distinct(keys: string[]): string[] {
  const seen = new Map<string, number>();
  return keys.map((key) => {
    const count = seen.get(key) ?? 0;
    seen.set(key, count + 1);
    return count === 0 ? key : `${key} ${count}`;
  });
}

export class Table<T> {
  /** Scrolls on its own, so that the page never does sideways. */
  readonly element = make("div", "table-scroll");
  readonly #rows = new Map<string, HTMLTableRowElement>();
  readonly #body = make("tbody");
  readonly #empty = make("p", "empty");
  readonly #table = make("table");

  constructor(
    caption: string,
    readonly columns: Column<T>[],
    readonly key: (row: T) => string,
    empty: string,
  ) {
    const head = make("tr");
    for (const { head: text, figure } of columns) {
      const cell = make("th", figure ? "figure" : "", text);
      cell.scope = "col";
      head.append(cell);
    }
    const top = make("thead");
    top.append(head);
    const name = this.#table.createCaption();
    name.className = "hidden";
    name.textContent = caption;
    this.#table.append(top, this.#body);
    this.#empty.textContent = empty;
    this.#empty.hidden = true;
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "region");
    this.element.setAttribute("aria-label", caption);
    this.element.append(this.#table, this.#empty);
  }

  render(rows: T[]): void {
    const keys = distinct(rows.map(this.key));
    const known = new Set(keys);
    for (const [key, element] of this.#rows) {
      if (known.has(key)) continue;
      element.remove();
      this.#rows.delete(key);
    }
    const focused = document.activeElement;
    rows.forEach((row, index) => {
      const key = keys[index] ?? "";
      const element = this.#rows.get(key) ?? this.#create(key);
      this.#fill(element, row);
      const there = this.#body.children[index];
      if (there !== element) this.#body.insertBefore(element, there ?? null);
    });
    // A row that changes its place loses the focus within it.
    if (focused instanceof HTMLElement && focused !== document.activeElement)
      if (this.#body.contains(focused)) focused.focus({ preventScroll: true });
    this.#empty.hidden = rows.length > 0;
    this.#table.hidden = rows.length === 0;
  }

  #create(key: string): HTMLTableRowElement {
    const element = make("tr");
    this.columns.forEach(({ figure, className = "" }, index) => {
      const cell = make(index === 0 ? "th" : "td", `${figure ? "figure " : ""}${className}`);
      if (index === 0) cell.scope = "row";
      element.append(cell);
    });
    this.#rows.set(key, element);
    return element;
  }

  #fill(element: HTMLTableRowElement, row: T): void {
    this.columns.forEach(({ text, node }, index) => {
      const cell = element.cells[index];
      const sign = text(row);
      if (!cell || cell.dataset.sign === sign) return;
      cell.dataset.sign = sign;
      cell.replaceChildren(node ? node(row) : sign);
    });
  }
}
