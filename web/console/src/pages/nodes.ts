// The nodes of the cluster, and how one is drained.

import { make } from "../../../chat/src/dom.ts";
import type { NodeLine } from "../answers.ts";
import { badge, button, given, named, type Tone } from "../controls.ts";
import { clock, count, counted, duration, moment, NONE } from "../format.ts";
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

export function nodes(view: View): void {
  view.head("Nodes", "All nodes of the cluster, as this one knows them.");
  const table = new Table<NodeLine>(
    "Nodes",
    [
      {
        head: "Node",
        // The feed may have its first answer after this page.
        text: ({ number }) =>
          `${number}${number === view.feed.last?.node.number ? " (this one)" : ""}`,
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
