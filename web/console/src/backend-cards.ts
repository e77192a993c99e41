// A card for each backend, with its workers and last failures, and one for each bridge. Cards stay while their backend does, so that
// focus and selection do.

import { make } from "../../chat/src/dom.ts";
import type { BackendHere, BackendsHere, BridgeHere, WorkerHere } from "./answers.ts";
import { badge, Facts, given, section, type Tone } from "./controls.ts";
import { Failures } from "./failures.ts";
import { above, atMost, bytes, count, NONE, percent, rate, words } from "./format.ts";
import { Table } from "./table.ts";
import type { View } from "./view.ts";

const TONES: Record<string, Tone> = { attached: "ok", slow: "warn", leaving: "calm", away: "bad" };

function p99({ p99_ms, p99_over }: { p99_ms: number | null; p99_over: boolean }): string {
  if (p99_ms === null) return NONE;
  return p99_over ? above(p99_ms) : atMost(p99_ms);
}

const workersTable = () =>
  new Table<WorkerHere>(
    "Workers",
    [
      { head: "Worker", text: ({ instance }) => instance, node: ({ instance }) => given(instance) },
      {
        head: "State",
        text: ({ state }) => state,
        node: ({ state }) => badge(state, TONES[state] ?? "calm"),
      },
      { head: "Sockets", text: ({ sockets }) => count(sockets), figure: true },
      { head: "Has", text: ({ under_way }) => count(under_way), figure: true },
      { head: "Window", text: ({ window_ratio }) => `${percent(window_ratio)} full`, figure: true },
      { head: "Waiting", text: ({ waiting }) => count(waiting), figure: true },
      { head: "Handled", text: ({ handled }) => count(handled), figure: true },
      {
        head: "Each second",
        text: ({ handled_per_second }) => rate(handled_per_second),
        figure: true,
      },
      { head: "p99", text: p99, figure: true },
      {
        head: "Link served by",
        text: ({ shard, state }) =>
          shard !== null ? `shard ${shard}` : state === "away" ? NONE : "the common thread",
      },
    ],
    ({ instance }) => instance,
    "No worker is attached.",
  );

class BackendCard {
  readonly element: HTMLElement;
  #state = make("span");
  #facts = new Facts();
  #workers = workersTable();
  #failures: Failures;

  constructor(view: View, name: string) {
    this.#failures = new Failures(view, { backend: name }, name);
    this.element = section("", this.#facts.element, this.#workers.element, this.#failures.element);
    this.element.querySelector("h2")?.append(given(name));
    this.element.querySelector(".card-head")?.append(this.#state);
  }

  render(backend: BackendHere): void {
    this.#showState(backend);
    const isCalled = backend.kind === "webhook";
    this.#facts.show([
      ["Handled each second", rate(backend.handled_per_second)],
      [isCalled ? "Calls, p99" : "Answers, p99 of the slowest worker", p99(backend)],
      ["Sockets", count(backend.sockets)],
      [
        isCalled ? "Sockets that wait for a call" : "Sockets without a worker",
        count(backend.parked),
      ],
      ["Kept until handled", `${bytes(backend.kept_bytes)}, ${percent(backend.queue_ratio)} full`],
      ["Events", count(backend.events)],
      ["Sent or called again", count(backend.redelivered + backend.retried)],
      ["Refused", count(backend.refused + backend.calls_refused)],
      ["Poison events", count(backend.poison)],
      ["Dead letters", count(backend.dead_letters)],
      ["Workers lost", count(backend.workers_lost)],
    ]);
    this.#workers.element.hidden = backend.workers.length === 0;
    this.#workers.render(backend.workers);
    this.#failures.render(backend.failures);
  }

  #showState({ kind, well }: BackendHere): void {
    const bad = kind === "webhook" ? "its endpoint fails" : "no worker";
    const text = kind === null ? "does not answer" : well ? `${words(kind)}: well` : bad;
    if (this.#state.textContent === text) return;
    this.#state.replaceChildren(badge(text, kind !== null && well ? "ok" : "bad"));
  }
}

export class BackendCards {
  readonly element = make("div", "stack");
  #cards = new Map<string, BackendCard>();
  #bridges = new Map<string, { facts: Facts; failures: Failures }>();

  constructor(readonly view: View) {}

  render({ backends, kafka, nats }: BackendsHere): void {
    for (const backend of backends) {
      let card = this.#cards.get(backend.name);
      if (!card) {
        card = new BackendCard(this.view, backend.name);
        this.#cards.set(backend.name, card);
        this.element.append(card.element);
      }
      card.render(backend);
    }
    if (kafka) this.#showBridge("Kafka", kafka);
    if (nats) this.#showBridge("NATS", nats);
  }

  #showBridge(name: string, bridge: BridgeHere): void {
    let card = this.#bridges.get(name);
    if (!card) {
      const failures = new Failures(this.view, { bridge: name.toLowerCase() }, name);
      card = { facts: new Facts(), failures };
      this.#bridges.set(name, card);
      this.element.append(section(name, card.facts.element, failures.element));
    }
    card.failures.render(bridge.failures);
    card.facts.show([
      ["Events written", count(bridge.produced)],
      ["Not acknowledged", count(bridge.failed)],
      ["Not taken", count(bridge.refused)],
      ["Requests sent again", count(bridge.retried)],
      ["Waiting", bytes(bridge.waiting_bytes)],
      ["Commands handed over", count(bridge.handed)],
      ["Not at other nodes", count(bridge.partial)],
      ["Left out as repeated", count(bridge.repeated)],
      ["Dead letters", count(bridge.dead)],
      ["Lost: no dead letter could be written", count(bridge.lost)],
      ["Records that wait to be read", count(bridge.lag)],
    ]);
  }
}
