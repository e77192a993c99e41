// Small hands for the document. Text only ever enters it as textContent: nothing here parses HTML.

/** The element that index.html promises under this id. */
export function byId<T extends HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no element #${id}`);
  return element as T;
}

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = "",
  text?: string,
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** A picture from the sprite in index.html; decoration, so hidden from screen readers. */
export function icon(name: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export function setIcon(button: HTMLElement, name: string): void {
  button.querySelector("use")?.setAttribute("href", `#i-${name}`);
}

/** A text for screen readers only. */
export function spoken(text: string): HTMLElement {
  return make("span", "hidden", text);
}
