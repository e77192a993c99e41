// The nodes of the cluster, and how one is drained.

import { make } from "../../../chat/src/dom.ts";
import type { NodeLine } from "../answers.ts";
import { badge, button, given, type Tone } from "../controls.ts";
import { clock, count, counted, duration, moment, NONE } from "../format.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

const EVERY_MS = 3000;

const TONES: Record<string, Tone> = { ready: "ok", draining: "warn", silent: "bad" };

export function nodes(view: View): void {
  view.head("Nodes", "All nodes of the cluster, as this one knows them.");
  const own = view.feed.last?.node.number;
  const table = new Table<NodeLine>(
    "Nodes",
    [
      {
        head: "Node",
        text: ({ number }) => `${number}${number === own ? " (this one)" : ""}`,
      },
      { head: "Name", text: ({ name }) => name, node: ({ name }) => given(name) },
      {
        head: "State",
        text: ({ state }) => state,
        node: ({ state }) => badge(state, TONES[state] ?? "calm"),
      },
      { head: "Sessions", text: ({ sessions }) => count(sessions), figure: true },
      { head: "Version", text: ({ version }) => version },
      { head: "Up", text: ({ age_seconds }) => duration(age_seconds), figure: true },
      { head: "Started", text: ({ started }) => moment(started * 1000), figure: true },
      { head: "Takes relayed connections at", text: ({ relay }) => relay ?? NONE },
      {
        head: "Action",
        text: ({ state, number }) => `${state} ${number}`,
        node: (node) => drainButton(view, node),
      },
    ],
    ({ number, life }) => `${number}/${life}`,
    "No node is known: this one is not in its cluster yet.",
  );
  const found = make("p", "found");
  view.add(found, table.element);
  view.every(EVERY_MS, async () => {
    const answer = await view.api.get<{ nodes: NodeLine[] }>("/v1/nodes", view.signal);
    table.render(answer.nodes);
    const sessions = answer.nodes.reduce((sum, node) => sum + node.sessions, 0);
    const nodes = counted(answer.nodes.length, "node");
    found.textContent = `${nodes} with ${counted(sessions, "session")}, at ${clock(Date.now())}.`;
  });
}

function drainButton(view: View, node: NodeLine): HTMLElement {
  const press = button("Drain…", "danger small", () => void drain(view, node));
  press.setAttribute("aria-label", `Drain node ${node.number}`);
  press.disabled = node.state === "draining" || !view.api.allows("operate");
  if (!view.api.allows("operate")) press.title = "This key lacks the scope operate";
  return press;
}

async function drain(view: View, { number, name }: NodeLine): Promise<void> {
  const sure = await view.confirm.ask({
    title: `Drain node ${number}?`,
    text: `${name} takes no more clients, sends its own to other nodes, and stops.`,
    yes: "Drain",
  });
  if (!sure) return;
  try {
    await view.api.post(`/v1/nodes/${number}/drain`);
    view.notice.say(`Node ${number} drains.`, "ok");
  } catch (error) {
    view.notice.fail(error);
  }
}
