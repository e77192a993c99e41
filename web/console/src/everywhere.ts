// Questions to all nodes: where a page looks, and which nodes did not answer.

import { segments } from "./controls.ts";

export interface AskedNode {
  node: number;
  answered: boolean;
  why: string | null;
}

export type Where = "node" | "nodes";

export function whereOf(query: URLSearchParams): Where {
  return query.get("where") === "nodes" ? "nodes" : "node";
}

/** Of this node, or of all. */
export function whereChoice(legend: string, value: Where, chosen: (where: Where) => void) {
  const choices: [Where, string][] = [
    ["node", "On this node"],
    ["nodes", "On all nodes"],
  ];
  return segments(legend, choices, value, (name) => chosen(name === "nodes" ? "nodes" : "node"));
}

/** What an answer has no part of, in words; empty if it has all. */
export function missing(complete: boolean, nodes: AskedNode[] = []): string {
  const silent = nodes.filter(({ answered }) => !answered);
  const told = silent.map(({ node, why }) => `Node ${node} is missing: ${why ?? "no answer"}.`);
  if (told.length > 0) return ` ${told.join(" ")}`;
  return complete ? "" : " A shard did not answer in time: there may be more.";
}

/** Where the items are from. */
export function places(where: Where, nodes: AskedNode[] = []): string {
  if (where === "node") return "on this node";
  const answered = nodes.filter((node) => node.answered).length;
  return answered === 1 ? "on 1 node" : `on ${answered} nodes`;
}
