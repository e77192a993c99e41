// One session: how it is connected, what waits for it, its sockets; or why it ended.

import { icon, make } from "../../../chat/src/dom.ts";
import type { End, Ends, SessionHere, SessionsHere, SocketHere } from "../answers.ts";
import { badge, button, facts, given, link, section } from "../controls.ts";
import { bytes, count, counted, duration, millis, moment, NONE, words } from "../format.ts";
import { callPath, roomHref } from "../route.ts";
import type { View } from "../view.ts";

const EVERY_MS = 2000;
const ENDS_ASKED = 1000;

export function session(view: View): void {
  const id = view.route.rest;
  view.head("Session", "");
  view.root.querySelector("h1")?.replaceChildren("Session ", make("bdi", "mono", id));
  const about = make("p", "about");
  about.append(link("#/sessions", "All sessions"));
  view.root.querySelector(".about")?.replaceWith(about);
  const place = make("div", "stack");
  const sockets = new Map<string, SocketCard>();
  view.add(place);
  let state = "";
  /** The parts stay while the session does, so that a button keeps its focus. */
  const show = (next: string, make: () => Node[]) => {
    if (state === next) return;
    state = next;
    place.replaceChildren(...make());
  };
  const head = make("div");
  const cards = make("div", "stack");
  const rest = make("p", "about");
  view.every(EVERY_MS, async () => {
    const answer = await view.api.get<SessionsHere>(
      callPath("/v1/node/sessions", { id, limit: 1 }),
      view.signal,
    );
    const [found] = answer.sessions;
    if (!found) {
      const end = await findEnd(view, id);
      show(`gone ${end?.at_ms}`, () => [end ? ended(end) : unknown()]);
      return;
    }
    show("here", () => [section("Connection", head), cards, rest]);
    head.replaceChildren(connection(found));
    renderSockets(view, cards, sockets, rest, found);
  });
}

function connection(found: SessionHere): HTMLElement {
  const version = found.engineio === null ? "" : `, Engine.IO ${found.engineio}`;
  const extras = [
    found.upgrading ? "upgrading to WebSocket" : "",
    found.compressed ? "compressed" : "not compressed",
    found.relayed ? "relayed from another node" : "",
  ].filter((text) => text !== "");
  return facts([
    ["Session", mono(found.id)],
    ["Protocol", `${found.protocol}${version}, ${found.parser}`],
    ["Transport", `${found.transport} (${extras.join(", ")})`],
    ["Address", mono(found.address)],
    ["Waiting to be sent", bytes(found.waiting_bytes)],
    ["Unread input", bytes(found.input_bytes)],
    ["Ping unanswered for", millis(found.silent_ms)],
    ["Rejections", count(found.rejections)],
  ]);
}

function mono(text: string): HTMLElement {
  return make("bdi", "mono", text);
}

function renderSockets(
  view: View,
  place: HTMLElement,
  cards: Map<string, SocketCard>,
  rest: HTMLElement,
  found: SessionHere,
): void {
  const key = ({ namespace, id }: SocketHere) => `${namespace} ${id}`;
  const here = new Set(found.sockets.map(key));
  for (const [name, card] of cards) {
    if (here.has(name)) continue;
    card.element.remove();
    cards.delete(name);
  }
  for (const socket of found.sockets) {
    let card = cards.get(key(socket));
    if (!card) {
      card = new SocketCard(view, socket);
      cards.set(key(socket), card);
      place.append(card.element);
    }
    card.render(socket);
  }
  rest.textContent = `and ${counted(found.socket_count - found.sockets.length, "more socket")}`;
  rest.hidden = found.socket_count === found.sockets.length;
}

class SocketCard {
  readonly element: HTMLElement;
  #facts = make("div");
  #rooms = make("ul", "chips");
  #buttons = make("div", "buttons");

  constructor(
    readonly view: View,
    readonly socket: SocketHere,
  ) {
    this.element = section("Socket ", this.#facts, this.#rooms, this.#buttons);
    this.element.querySelector("h2")?.append(given(socket.namespace));
    const may = view.api.allows("disconnect");
    for (const close of [false, true]) {
      const text = close ? "Disconnect and close…" : "Disconnect…";
      const press = button(text, "danger", () => void this.#disconnect(close));
      press.disabled = !may;
      this.#buttons.append(press);
    }
    if (!may) this.#buttons.append(make("p", "about", "This key lacks the scope disconnect."));
  }

  render(socket: SocketHere): void {
    const expires =
      socket.expires === null ? "never" : `in ${duration(socket.expires - Date.now() / 1000)}`;
    const age = duration((Date.now() - socket.since_ms) / 1000);
    const recovery = socket.recovered
      ? "recovered after a cut"
      : socket.recoverable
        ? "can be recovered"
        : "none";
    this.#facts.replaceChildren(
      facts([
        ["User", socket.user === null ? NONE : given(socket.user)],
        ["Socket", mono(socket.id)],
        ["Connected", `${moment(socket.since_ms)}, for ${age}`],
        ["Login expires", expires],
        ["Answers it owes", count(socket.acks_owed)],
        ["Data", bytes(socket.data_bytes)],
        ["Recovery", recovery],
        ["Rooms", counted(socket.room_count, "room")],
      ]),
    );
    const sign = socket.rooms.join("\n");
    if (this.#rooms.dataset.sign === sign) return;
    this.#rooms.dataset.sign = sign;
    this.#rooms.hidden = socket.rooms.length === 0;
    this.#rooms.setAttribute("aria-label", "Rooms of this socket");
    this.#rooms.replaceChildren(
      ...socket.rooms.map((room) => {
        const item = make("li");
        item.append(link(roomHref(socket.namespace, room), room, "chip"));
        return item;
      }),
    );
    const hidden = socket.room_count - socket.rooms.length;
    if (hidden > 0) this.#rooms.append(make("li", "about", `and ${count(hidden)} more`));
  }

  async #disconnect(close: boolean): Promise<void> {
    const { view, socket } = this;
    const of = socket.user === null ? "" : ` of ${socket.user}`;
    const sure = await view.confirm.ask({
      title: close ? "Disconnect it and close its connection?" : "Disconnect this socket?",
      text: close
        ? `Socket ${socket.id}${of}: its connection ends, with all its namespaces.`
        : `Socket ${socket.id}${of} leaves the namespace ${socket.namespace}.`,
      yes: close ? "Disconnect and close" : "Disconnect",
    });
    if (!sure) return;
    const order = { namespace: socket.namespace, sockets: [socket.id], close };
    try {
      await view.api.post("/v1/disconnect", JSON.stringify(order));
      view.notice.say(`Socket ${socket.id}${of} is put out.`, "ok");
    } catch (error) {
      view.notice.fail(error);
    }
  }
}

async function findEnd(view: View, id: string): Promise<End | undefined> {
  const path = callPath("/v1/node/ends", { limit: ENDS_ASKED });
  const { ends } = await view.api.get<Ends>(path, view.signal);
  return ends.find(({ session, socket }) => session === id || socket === id);
}

function ended(end: End): HTMLElement {
  const state = make("p", "verdict");
  state.append(icon("warning"), make("span", "", `It ended at ${moment(end.at_ms)}: `));
  state.append(badge(words(end.reason), "bad"));
  const known = facts([
    ["User", end.user === null ? NONE : given(end.user)],
    ["Address", mono(end.address)],
    ["Namespace", end.namespace === null ? NONE : given(end.namespace)],
    ["Connection", `${end.protocol}, ${end.transport}`],
    ["Waiting to be sent", bytes(end.waiting_bytes)],
    ["Ping unanswered for", millis(end.silent_ms)],
    ["Rejections", count(end.rejections)],
  ]);
  return section("Ended", state, known);
}

function unknown(): HTMLElement {
  const text =
    "This node has no such session or socket, and it is not among the last ends. It may be on another node.";
  return section("Not here", make("p", "about", text));
}
