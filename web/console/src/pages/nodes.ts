// The nodes of the cluster and their links, and how a node is drained.

import { make } from "../../../chat/src/dom.ts";
import type { LinksOfNodes, NodeLine, NodeLinks } from "../answers.ts";
import { Problem } from "../api.ts";
import { badge, button, given, named, section, type Tone } from "../controls.ts";
import { missing } from "../everywhere.ts";
import { bytes, clock, cores, count, counted, duration, millis, NONE, rate } from "../format.ts";
import { type LinkRow, Links } from "../links.ts";
import { Picture } from "../picture.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

const EVERY_MS = 3000;

const TONES: Record<string, Tone> = { ready: "ok", draining: "warn", silent: "bad" };

/** Why a node in this state is not told to drain. */
const CANNOT: Record<string, string> = {
  draining: "It drains already",
  drained: "It is drained already",
  silent: "It is not heard from",
};

/** A node, and what it tells of itself; nothing while it does not answer. */
interface Row {
  node: NodeLine;
  links: NodeLinks | undefined;
}

export function nodes(view: View): void {
  const links = new Links();
  const picture = new Picture(links);
  const table = nodesTable(view);
  const rows = linksTable();
  const list = section("Links", rows.element);
  const found = make("p", "found");
  const me = () => view.feed.last?.node.number;
  view.head("Nodes", "All nodes of the cluster, as this one knows them, and who talks to whom.");
  view.add(found, picture.element, table.element, list);
  picture.watchWidth(() => picture.render(me()), view.signal);
  list.hidden = true;
  const show = (part: string) => {
    const { nodes } = links;
    table.render(nodes.map((node) => ({ node, links: links.of(node.number) })));
    picture.render(me());
    const linkRows = links.rows();
    list.hidden = linkRows.length === 0;
    rows.render(linkRows);
    const sessions = nodes.reduce((sum, node) => sum + node.sessions, 0);
    const what = `${counted(nodes.length, "node")} with ${counted(sessions, "session")}${inAll(links.links)}`;
    found.textContent = `${what}, at ${clock(Date.now())}.${part}`;
  };
  let part = "";
  view.every(EVERY_MS, async () => {
    const { nodes } = await view.api.get<{ nodes: NodeLine[] }>("/v1/nodes", view.signal);
    links.nodes = nodes;
    // Links may take long. Who has to drain a node does not wait for them.
    show(part);
    part = await takeLinks(view, links);
    show(part);
  });
}

/** Why there are no links, or none of some nodes; empty if all are there. */
async function takeLinks(view: View, links: Links): Promise<string> {
  if (!view.api.allowsEverywhere("read"))
    return " Links are for keys with the scope read in all namespaces.";
  try {
    const all = await view.api.get<LinksOfNodes>("/v1/nodes/links", view.signal);
    links.take(all);
    return missing(all.complete, all.nodes);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    links.forget();
    return ` Links are missing: ${error.detail}.`;
  }
}

/** What the nodes that answered do together. */
function inAll(links: NodeLinks[]): string {
  if (links.length === 0) return "";
  const sum = (of: (links: NodeLinks) => number) =>
    rate(links.reduce((sum, one) => sum + of(one), 0));
  const [heard, told] = [sum((one) => one.messages_in), sum((one) => one.deliveries)];
  return `, ${heard} messages in and ${told} deliveries each second`;
}

function nodesTable(view: View): Table<Row> {
  const of = (read: (links: NodeLinks) => string) => (row: Row) =>
    row.links ? read(row.links) : NONE;
  return new Table<Row>(
    "Nodes",
    [
      {
        head: "Node",
        // The feed may have its first answer after this page.
        text: ({ node: { number } }) =>
          `${number}${number === view.feed.last?.node.number ? " (this one)" : ""}`,
        className: "when",
      },
      {
        head: "State",
        text: ({ node: { state, leaving, upgrading } }) => `${state} ${leaving} ${upgrading}`,
        node: ({ node }) => stateOf(node),
      },
      { head: "Sessions", text: ({ node: { sessions } }) => count(sessions), figure: true },
      {
        head: "Messages /s",
        text: of(
          ({ messages_in, deliveries }) => `${rate(messages_in)} in, ${rate(deliveries)} out`,
        ),
        figure: true,
      },
      {
        head: "Load",
        text: of(({ cpu, cores: all }) => (cpu === null ? NONE : `${cores(cpu)} of ${all} cores`)),
        figure: true,
      },
      {
        head: "Memory",
        text: of(({ memory_bytes }) => (memory_bytes === null ? NONE : bytes(memory_bytes))),
        figure: true,
      },
      {
        head: "Name",
        text: ({ node: { name } }) => name,
        node: ({ node: { name } }) => given(name),
      },
      { head: "Version", text: ({ node: { version } }) => version },
      { head: "Up", text: ({ node: { age_seconds } }) => duration(age_seconds), figure: true },
      { head: "Upgrades", text: of(upgraded), figure: true },
      { head: "Door for nodes", text: ({ node: { relay } }) => relay ?? NONE },
      {
        head: "Action",
        text: ({ node: { state, number } }) => `${state} ${number}`,
        node: ({ node }) => drainButton(view, node),
      },
    ],
    ({ node: { number, life } }) => `${number}/${life}`,
    "No node is known: this one is not in its cluster yet.",
  );
}

function linksTable(): Table<LinkRow> {
  return new Table<LinkRow>(
    "Links",
    [
      { head: "From", text: ({ from }) => from },
      { head: "To", text: ({ to }) => to, node: ({ to }) => given(to) },
      {
        head: "State",
        text: ({ state }) => state,
        node: ({ state, tone }) => badge(state, tone),
      },
      {
        head: "Messages heard /s",
        text: ({ perSecond }) => (perSecond === null ? NONE : rate(perSecond)),
        figure: true,
      },
      { head: "And", text: ({ figures }) => figures, className: "name fate" },
    ],
    ({ key }) => key,
    "No link is known.",
  );
}

/** Upgrades that were done, and those that came to nothing. */
function upgraded({ upgrades }: NodeLinks): string {
  const { done = 0, failed = 0, refused = 0, pause_ms = null } = upgrades ?? {};
  const parts = done > 0 ? [`${count(done)}, paused ${millis(pause_ms)}`] : [];
  if (failed > 0) parts.push(`${count(failed)} given up`);
  if (refused > 0) parts.push(`${count(refused)} refused`);
  return parts.join(", ") || NONE;
}

/** The state, and a rebalance or an upgrade that is under way. */
function stateOf({ state, leaving, upgrading }: NodeLine): HTMLElement {
  const all = make("span", "states");
  all.append(badge(state, TONES[state] ?? "calm"));
  if (leaving > 0) all.append(badge(`${counted(leaving, "session")} to go elsewhere`, "warn"));
  if (upgrading) all.append(badge("another process takes over", "warn"));
  return all;
}

function drainButton(view: View, node: NodeLine): HTMLElement {
  const press = button("Drain…", "danger small", () => void drain(view, node));
  press.setAttribute("aria-label", `Drain node ${node.number}`);
  const cannot = CANNOT[node.state] ?? "";
  const why = view.api.allows("operate") ? cannot : "This key lacks the scope operate";
  press.disabled = why !== "";
  press.title = why;
  return press;
}

async function drain(view: View, { number, name, life }: NodeLine): Promise<void> {
  const sure = await view.confirm.ask({
    title: `Drain node ${number}?`,
    text: [
      named(name),
      " takes no more clients, tells its own to come back elsewhere, and leaves the cluster. ",
      "Its process stays until it is stopped.",
    ],
    yes: "Drain",
  });
  if (!sure) return;
  try {
    // While one thinks, a number can pass to another process.
    const { nodes } = await view.api.get<{ nodes: NodeLine[] }>("/v1/nodes");
    if (!nodes.some((node) => node.number === number && node.life === life)) {
      const words = [`Node ${number}, `, named(name), ", is gone: nothing was done."];
      return view.notice.say(words, "warn");
    }
    await view.api.post(`/v1/nodes/${number}/drain`);
    view.notice.say([`Node ${number}, `, named(name), ", drains."], "ok");
  } catch (error) {
    view.notice.fail(error);
  }
}
