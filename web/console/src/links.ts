// Who talks to whom: the answers of all nodes as rows of a table and as lines of a picture.

import type { EngineLink, NodeLine, NodeLinks, OtherNode } from "./answers.ts";
import type { Tone } from "./controls.ts";
import { bytes, count, counted, duration, millis, NONE, rate } from "./format.ts";

/** Of more nodes, only links between nodes that have something to tell are rows. */
const ALL_PAIRS_MAX = 12;
/** Heartbeats come four times a second. */
const SILENT_MS = 2000;
/** A way through the engine that takes so long is felt by clients. */
const SLOW_MS = 100;

export interface LinkRow {
  key: string;
  from: string;
  to: string;
  state: string;
  tone: Tone;
  figures: string;
  perSecond: number | null;
}

/** A link of the picture. */
export interface Line {
  node: number;
  tone: Tone;
  above: string;
  below: string;
}

export interface Relay {
  from: number;
  to: number;
  count: number;
}

/** Something beside the nodes: a backend or a bridge, and the nodes that have it. */
export interface Side {
  name: string;
  about: string;
  nodes: { node: number; tone: Tone }[];
}

export class Links {
  /** What each node had heard of each other one, and when that was asked. */
  #before = new Map<string, number>();
  #rates = new Map<string, number>();
  #asked: number | undefined;
  nodes: NodeLine[] = [];
  links: NodeLinks[] = [];

  take(nodes: NodeLine[], links: NodeLinks[], now: number): void {
    const seconds = this.#asked === undefined ? 0 : (now - this.#asked) / 1000;
    const before = this.#before;
    this.#before = new Map();
    this.#rates = new Map();
    for (const { node, others } of links)
      for (const { to, received } of others) {
        const key = `${node} ${to}`;
        const earlier = before.get(key);
        this.#before.set(key, received);
        // Another life of a node begins anew.
        if (earlier !== undefined && seconds > 0 && received >= earlier)
          this.#rates.set(key, (received - earlier) / seconds);
      }
    this.#asked = now;
    this.nodes = nodes;
    this.links = links;
  }

  of(node: number): NodeLinks | undefined {
    return this.links.find((one) => one.node === node);
  }

  get engine(): string | undefined {
    return this.links.find(({ engine }) => engine)?.engine?.name;
  }

  /** Messages of all others that a node hears each second. */
  heard(node: number): number | null {
    const keys = [...this.#rates.keys()].filter((key) => key.startsWith(`${node} `));
    if (keys.length === 0) return null;
    return keys.reduce((sum, key) => sum + (this.#rates.get(key) ?? 0), 0);
  }

  rows(): LinkRow[] {
    return this.links.flatMap((links) => [
      ...this.#engineRow(links),
      ...this.#pairRows(links),
      ...sideRows(links),
    ]);
  }

  #engineRow({ node, engine }: NodeLinks): LinkRow[] {
    if (!engine) return [];
    const [state, tone] = engineState(engine);
    const trip = engine.round_trip_ms;
    const parts = trip === null ? [] : [`${millis(trip)} there and back`];
    if (engine.waiting_bytes > 0) parts.push(`${bytes(engine.waiting_bytes)} wait`);
    if (engine.repairs > 0) parts.push(`${counted(engine.repairs, "frame")} sent again`);
    if (engine.lost > 0) parts.push(`${counted(engine.lost, "message")} lost`);
    const perSecond = this.heard(node);
    const from = `Node ${node}`;
    const key = `${node} engine`;
    return [
      { key, from, to: engine.name, state, tone, figures: parts.join(", ") || NONE, perSecond },
    ];
  }

  #pairRows({ node, engine, others }: NodeLinks): LinkRow[] {
    if (!engine) return [];
    const known = new Map(others.map((other) => [other.to, other]));
    const numbers = new Set(this.nodes.map(({ number }) => number));
    for (const { to } of others) numbers.add(to);
    numbers.delete(node);
    const all = numbers.size < ALL_PAIRS_MAX;
    return [...numbers]
      .sort((a, b) => a - b)
      .map((to) => this.#pair(node, to, known.get(to)))
      .filter(({ tone, figures }) => all || tone !== "ok" || figures !== NONE);
  }

  #pair(node: number, to: number, other: OtherNode | undefined): LinkRow {
    const silent = other?.silent_ms ?? null;
    const [state, tone]: [string, Tone] =
      silent === null
        ? ["not heard", "bad"]
        : silent > SILENT_MS
          ? [`silent for ${duration(silent / 1000)}`, "warn"]
          : ["heard", "ok"];
    const { gaps = 0, lost = 0, relayed = 0 } = other ?? {};
    const parts: string[] = [];
    if (relayed > 0) parts.push(`${counted(relayed, "connection")} relayed`);
    if (gaps > 0) parts.push(`${counted(gaps, "gap")} found`);
    if (lost > 0) parts.push(`${counted(lost, "message")} lost`);
    return {
      key: `${node} node ${to}`,
      from: `Node ${node}`,
      to: `Node ${to}`,
      state,
      tone,
      figures: parts.join(", ") || NONE,
      perSecond: this.#rates.get(`${node} ${to}`) ?? null,
    };
  }

  /** The way of each node to the engine, also of those that say nothing of it. */
  lines(): Line[] {
    return this.nodes.map(({ number, state }) => {
      const engine = this.of(number)?.engine;
      if (!engine)
        return {
          node: number,
          tone: state === "silent" ? "bad" : "calm",
          above: state === "silent" ? "silent" : "not told",
          below: "",
        };
      const [word, tone] = engineState(engine);
      const heard = this.heard(number);
      return {
        node: number,
        tone,
        above: engine.up ? brief(engine.round_trip_ms) : word,
        below: heard === null ? "" : `${rate(heard)}/s`,
      };
    });
  }

  relays(): Relay[] {
    return this.links.flatMap(({ node, others }) =>
      others
        .filter(({ relayed }) => relayed > 0)
        .map(({ to, relayed }) => ({ from: node, to, count: relayed })),
    );
  }

  sides(): Side[] {
    const sides = new Map<string, Side & { workers: number; waiting: number; bridge: boolean }>();
    const side = (name: string, bridge: boolean) => {
      const key = `${bridge} ${name}`;
      const one = sides.get(key) ?? { name, about: "", nodes: [], workers: 0, waiting: 0, bridge };
      sides.set(key, one);
      return one;
    };
    for (const { node, backends, bridges } of this.links) {
      for (const { name, workers } of backends) {
        const one = side(name, false);
        one.workers += workers;
        one.nodes.push({ node, tone: workers > 0 ? "ok" : "bad" });
      }
      for (const { name, waiting_bytes } of bridges) {
        const one = side(name, true);
        one.waiting += waiting_bytes;
        one.nodes.push({ node, tone: "ok" });
      }
    }
    return [...sides.values()].map(({ name, nodes, workers, waiting, bridge }) => ({
      name,
      nodes,
      about: bridge ? `${bytes(waiting)} wait` : up(workers),
    }));
  }
}

/** There is little room beside a line. */
function brief(ms: number | null): string {
  return ms === null || ms < 10 ? millis(ms) : `${count(ms)} ms`;
}

function engineState(engine: EngineLink) {
  const slow = (engine.round_trip_ms ?? 0) >= SLOW_MS;
  const answer: [string, Tone] = !engine.up
    ? ["away", "bad"]
    : slow
      ? ["slow", "warn"]
      : ["well", "ok"];
  return answer;
}

/** Workers that are attached, or endpoints that are well. */
const up = (workers: number) => (workers === 0 ? "none up" : `${count(workers)} up`);

function sideRows({ node, backends, bridges }: NodeLinks): LinkRow[] {
  const from = `Node ${node}`;
  const perSecond = null;
  return [
    ...backends.map(({ name, workers, links_of_shards }) => ({
      key: `${node} backend ${name}`,
      from,
      to: name,
      state: up(workers),
      tone: (workers > 0 ? "ok" : "bad") as Tone,
      figures: links_of_shards > 0 ? `${counted(links_of_shards, "link")} served by shards` : NONE,
      perSecond,
    })),
    ...bridges.map(({ name, waiting_bytes }) => ({
      key: `${node} bridge ${name}`,
      from,
      to: name,
      state: "bridge",
      tone: "calm" as Tone,
      figures: `${bytes(waiting_bytes)} wait`,
      perSecond,
    })),
  ];
}
