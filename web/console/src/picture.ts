// The picture of who talks to whom: nodes one below the other, what is between them at the right, backends and bridges at the left. It shows
// nothing that the table of links does not say.

import { make } from "../../chat/src/dom.ts";
import type { NodeLine } from "./answers.ts";
import { count, counted } from "./format.ts";
import type { Line, Links, Relay, Side } from "./links.ts";
import { draw } from "./svg.ts";

/** More would be no picture any more. */
const NODES_MAX = 24;
const ROW = 52;
const GAP = 20;
const EDGE = 4;
const SIDE_HEIGHT = 40;
/** Of letters of the small size, for names that have to be cut. */
const LETTER_PX = 6.4;
const WIDE_PX = 560;
const WIDEST_PX = 900;

interface Layout {
  height: number;
  side: { x: number; width: number };
  node: { x: number; width: number };
  engine: { x: number; width: number };
}

export class Picture {
  readonly element = make("figure", "picture card");
  readonly #svg = draw("svg", { "aria-hidden": "true" });
  readonly #area = make("div", "picture-area");
  readonly #caption = make("figcaption", "about");
  #width = 0;

  constructor(readonly links: Links) {
    this.#area.append(this.#svg);
    this.element.append(this.#area, this.#caption);
    this.element.hidden = true;
  }

  watchWidth(changed: () => void, signal: AbortSignal): void {
    const observer = new ResizeObserver(([entry]) => {
      const width = Math.min(WIDEST_PX, Math.floor(entry?.contentRect.width ?? 0));
      if (width === this.#width) return;
      this.#width = width;
      changed();
    });
    observer.observe(this.#area);
    signal.addEventListener("abort", () => observer.disconnect());
  }

  render(me: number | undefined): void {
    const { links } = this;
    const nodes = links.nodes.slice(0, NODES_MAX);
    const sides = links.sides();
    // A node alone, with nothing behind it, is no picture.
    this.element.hidden = nodes.length < 2 && sides.length === 0;
    if (this.element.hidden || this.#width < 200) return;
    const relays = links.relays();
    const layout = plan(this.#width, nodes.length, sides.length, relays.length > 0, links.engine);
    const middle = new Map(
      nodes.map(({ number }, n) => [number, EDGE + n * (ROW + GAP) + ROW / 2]),
    );
    this.#svg.setAttribute("viewBox", `0 0 ${this.#width} ${layout.height}`);
    this.#svg.style.width = `${this.#width}px`;
    this.#svg.style.height = `${layout.height}px`;
    this.#svg.replaceChildren(
      ...links.lines().flatMap((line) => engineLine(line, layout, middle)),
      ...sides.flatMap((side, n) => sideParts(side, n, sides.length, layout, middle)),
      ...relays.flatMap((relay) => relayArc(relay, layout, middle)),
      ...nodes.flatMap((node) => this.#node(node, node.number === me, layout, middle)),
      ...engineBox(links.engine, layout),
    );
    this.#caption.textContent = caption(links, relays.length > 0, sides.length > 0);
  }

  #node(
    node: NodeLine,
    isMe: boolean,
    { node: { x, width } }: Layout,
    middle: Map<number, number>,
  ): SVGElement[] {
    const y = (middle.get(node.number) ?? 0) - ROW / 2;
    const wide = width > 180;
    const stands = node.upgrading ? "upgrading" : node.state;
    const state = stands === "ready" ? "" : `, ${stands}`;
    const words = `${counted(node.sessions, "session")}${node.leaving > 0 ? `, ${count(node.leaving)} to go` : ""}`;
    const title = `Node ${node.number}${wide && isMe ? " (this one)" : ""}${state}`;
    const box = `box${isMe ? " me" : ""}${node.state === "silent" ? " bad" : ""}`;
    const parts: SVGElement[] = [
      draw("rect", { x, y, width, height: ROW, rx: 10, class: box }),
      draw("text", { x: x + 10, y: y + 20, class: "title" }, cut(title, width - 20)),
      draw("text", { x: x + 10, y: y + 36 }, cut(words, width - 20)),
    ];
    const of = this.links.of(node.number);
    if (of && of.cpu !== null) {
      const share = Math.min(1, of.cpu / of.cores);
      const bar = { x: x + 10, y: y + ROW - 9, height: 4, rx: 2 };
      parts.push(
        draw("rect", { ...bar, width: width - 20, class: "track" }),
        draw("rect", { ...bar, width: Math.max(3, share * (width - 20)), class: load(share) }),
      );
    }
    return parts;
  }
}

const load = (share: number) => `load ${share > 0.9 ? "bad" : share > 0.7 ? "warn" : "ok"}`;

function plan(
  width: number,
  nodes: number,
  sides: number,
  relays: boolean,
  engine: string | undefined,
): Layout {
  const wide = width >= WIDE_PX;
  const sideWidth = sides === 0 ? 0 : wide ? 170 : Math.min(84, width * 0.27);
  const nodeWidth = wide ? 230 : Math.min(118, width * 0.38);
  const engineWidth = engine === undefined ? 0 : wide ? 96 : 28;
  const rest = width - sideWidth - nodeWidth - engineWidth - 2;
  const left = sides > 0 ? rest * (engine === undefined ? 1 : 0.45) : relays ? 44 : 0;
  const nodesHeight = nodes * (ROW + GAP) - GAP;
  const sidesHeight = sides * (SIDE_HEIGHT + 12) - 12;
  return {
    height: Math.max(nodesHeight, sidesHeight) + 2 * EDGE,
    side: { x: 1, width: sideWidth },
    node: { x: 1 + sideWidth + left, width: nodeWidth },
    engine: { x: width - engineWidth - 1, width: engineWidth },
  };
}

function engineBox(name: string | undefined, { engine, height }: Layout): SVGElement[] {
  if (name === undefined) return [];
  const { x, width } = engine;
  const middle = { x: x + width / 2, y: height / 2 };
  const upright = width > 60;
  const text = upright
    ? { ...middle, y: middle.y + 4, class: "title middle" }
    : {
        ...middle,
        class: "title middle",
        transform: `rotate(-90 ${middle.x} ${middle.y}) translate(0 4)`,
      };
  return [
    draw("rect", { x, y: EDGE, width, height: height - 2 * EDGE, rx: 10, class: "box" }),
    draw("text", text, name),
  ];
}

function engineLine(
  { node, tone, above, below }: Line,
  { node: box, engine }: Layout,
  middle: Map<number, number>,
): SVGElement[] {
  const y = middle.get(node);
  if (y === undefined || engine.width === 0) return [];
  const from = box.x + box.width;
  const at = { x: (from + engine.x) / 2, class: "middle" };
  return [
    draw("line", { x1: from, x2: engine.x, y1: y, y2: y, class: `link ${tone}` }),
    draw("text", { ...at, y: y - 6 }, above),
    draw("text", { ...at, y: y + 15 }, below),
  ];
}

function sideParts(
  { name, about, nodes }: Side,
  n: number,
  count: number,
  { side: { x, width }, node, height }: Layout,
  middle: Map<number, number>,
): SVGElement[] {
  const step = SIDE_HEIGHT + 12;
  const top = (height - (count * step - 12)) / 2 + n * step;
  const y = top + SIDE_HEIGHT / 2;
  const [from, to] = [x + width, node.x];
  const half = (from + to) / 2;
  const lines = nodes.flatMap(({ node: number, tone }) => {
    const end = middle.get(number);
    if (end === undefined) return [];
    const d = `M${from} ${y}C${half} ${y} ${half} ${end} ${to} ${end}`;
    return [draw("path", { d, class: `link ${tone}` })];
  });
  return [
    ...lines,
    draw("rect", { x, y: top, width, height: SIDE_HEIGHT, rx: 10, class: "box" }),
    draw("text", { x: x + 8, y: top + 17, class: "title" }, cut(name, width - 14)),
    draw("text", { x: x + 8, y: top + 32 }, cut(about, width - 14)),
  ];
}

/** From the lower part of one box to the upper part of the other, beside both. */
function relayArc(
  { from, to, count: connections }: Relay,
  { node: { x } }: Layout,
  middle: Map<number, number>,
): SVGElement[] {
  const [a, b] = [middle.get(from), middle.get(to)];
  if (a === undefined || b === undefined) return [];
  const down = b > a;
  const [start, end] = [a + (down ? 12 : -12), b + (down ? -12 : 12)];
  // Both ways between two nodes are told apart.
  const reach = (down ? 24 : 40) + Math.min(40, Math.abs(b - a) / 12);
  const d = `M${x} ${start}C${x - reach} ${start} ${x - reach} ${end} ${x} ${end}`;
  const label = { x: x - reach * 0.75, y: (start + end) / 2 + 4, class: "middle over" };
  const tip = `M${x} ${end}l-7 -4v8z`;
  return [
    draw("path", { d, class: "link relay" }),
    draw("path", { d: tip, class: "tip" }),
    draw("text", label, count(connections)),
  ];
}

function cut(text: string, px: number): string {
  const most = Math.floor(px / LETTER_PX);
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, Math.max(1, most - 1)).join("")}…`;
}

function caption({ engine, nodes }: Links, relays: boolean, sides: boolean): string {
  const parts: string[] = [];
  if (engine !== undefined)
    parts.push(
      `At the line to ${engine}: the longest way there and back in the last seconds, and messages of other nodes each second.`,
    );
  if (relays)
    parts.push("Arrows: connections that are relayed to the node that has their session.");
  if (sides) parts.push("At the left: backends and bridges.");
  if (nodes.length > NODES_MAX)
    parts.push(`${nodes.length - NODES_MAX} more nodes are in the table.`);
  parts.push("The bar of a node is its load.");
  return parts.join(" ");
}
