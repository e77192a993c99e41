// One session: how it is connected, what waits for it, its sockets; or why it ended.

import { icon, make } from "../../../chat/src/dom.ts";
import type { End, Ends, SessionHere, SessionsHere, SocketHere } from "../answers.ts";
import { Problem } from "../api.ts";
import {
  badge,
  button,
  Facts,
  facts,
  given,
  link,
  named,
  section,
  type Words,
} from "../controls.ts";
import { bytes, count, counted, duration, millis, moment, NONE, words } from "../format.ts";
import { callPath, roomHref } from "../route.ts";
import type { View } from "../view.ts";

const EVERY_MS = 2000;
const ENDS_ASKED = 1000;

/** Nobody comes back quickly after an end, but a client may recover its socket. */
const GONE_EVERY_MS = 10_000;

export function session(view: View): void {
  new SessionPage(view).open();
}

class SessionPage {
  /** Of the address, or another socket of the same session if that one is gone. */
  #id: string;
  #last: SessionHere | undefined;
  #end: End | undefined;
  #askAt = 0;
  #state = "";
  #place = make("div", "stack");
  #note = make("p", "about");
  #connection = new Facts();
  #cards = make("div", "stack");
  #sockets = new Map<string, SocketCard>();
  #rest = make("p", "about");

  constructor(readonly view: View) {
    this.#id = view.route.rest;
  }

  open(): void {
    const { view } = this;
    view.head("Session", "");
    view.root.querySelector("h1")?.replaceChildren("Session ", mono(this.#id));
    const about = make("p", "about");
    about.append(link("#/sessions", "All sessions"));
    view.root.querySelector(".about")?.replaceWith(about);
    view.add(this.#place);
    view.every(EVERY_MS, async () => {
      if (performance.now() >= this.#askAt) await this.#look();
    });
  }

  async #look(): Promise<void> {
    const found = await this.#find();
    if (found) {
      this.#end = undefined;
      this.#showHere(found);
      return;
    }
    this.#end ??= await this.#findEnd();
    const end = this.#end;
    const state = `gone ${end?.at_ms}`;
    // An end may be noted a moment later than its session goes.
    if (end || state === this.#state) this.#askAt = performance.now() + GONE_EVERY_MS;
    this.#show(state, () => [end ? ended(end) : unknown()]);
  }

  /** The session, by any of the sockets that it had when it was seen last. */
  async #find(): Promise<SessionHere | undefined> {
    const others = this.#end ? [] : (this.#last?.sockets ?? []).map(({ id }) => id);
    for (const id of new Set([this.#id, ...others])) {
      const path = callPath("/v1/node/sessions", { id, limit: 1 });
      const answer = await this.view.api.get<SessionsHere>(path, this.view.signal);
      const [found] = answer.sessions;
      if (found) {
        this.#id = id;
        return found;
      }
      if (!answer.complete) throw unsure();
    }
    return undefined;
  }

  async #findEnd(): Promise<End | undefined> {
    const path = callPath("/v1/node/ends", { limit: ENDS_ASKED });
    const { ends, complete } = await this.view.api.get<Ends>(path, this.view.signal);
    const ids = new Set([this.view.route.rest, ...(this.#last?.sockets ?? []).map(({ id }) => id)]);
    const end = ends.find(({ session, socket }) => ids.has(session) || ids.has(socket ?? ""));
    if (!end && !complete) throw unsure();
    return end;
  }

  #showHere(found: SessionHere): void {
    this.#last = found;
    this.#show("here", () => [
      this.#note,
      section("Connection", this.#connection.element),
      this.#cards,
      this.#rest,
    ]);
    const { rest } = this.view.route;
    const isGone = this.#id !== rest;
    this.#note.hidden = !isGone;
    this.#note.textContent = isGone ? `Socket ${rest} is gone; its session goes on.` : "";
    this.#connection.show(connection(found));
    renderSockets(this.view, this.#cards, this.#sockets, this.#rest, found);
  }

  /** The parts stay while the session does, so that a button keeps its focus. */
  #show(state: string, make: () => Node[]): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#place.replaceChildren(...make());
  }
}

/** What is shown stays: a shard that is busy says nothing about a session. */
function unsure(): Problem {
  return new Problem(0, "A shard did not answer in time", "it may have this session");
}

function connection(found: SessionHere): [string, Node | string][] {
  const version = found.engineio === null ? "" : `, Engine.IO ${found.engineio}`;
  const extras = [
    found.upgrading ? "upgrading to WebSocket" : "",
    found.compressed ? "compressed" : "not compressed",
    found.relayed ? "relayed from another node" : "",
  ].filter((text) => text !== "");
  return [
    ["Session", mono(found.id)],
    ["Protocol", `${found.protocol}${version}, ${found.parser}`],
    ["Transport", `${found.transport} (${extras.join(", ")})`],
    ["Address", mono(found.address)],
    ["Waiting to be sent", bytes(found.waiting_bytes)],
    ["Unread input", bytes(found.input_bytes)],
    ["Ping unanswered for", millis(found.silent_ms)],
    ["Rejections", count(found.rejections)],
  ];
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
  #facts = new Facts();
  #rooms = make("ul", "chips");
  #buttons = make("div", "buttons");

  constructor(
    readonly view: View,
    readonly socket: SocketHere,
  ) {
    this.element = section("Socket ", this.#facts.element, this.#rooms, this.#buttons);
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
    const { now } = this.view.feed;
    const age = duration((now - socket.since_ms) / 1000);
    const recovery = socket.recovered
      ? "recovered after a cut"
      : socket.recoverable
        ? "can be recovered"
        : "none";
    this.#facts.show([
      ["User", socket.user === null ? NONE : given(socket.user)],
      ["Socket", mono(socket.id)],
      ["Connected", `${moment(socket.since_ms)}, for ${age}`],
      ["Login expires", expiry(socket.expires, now)],
      ["Answers it owes", count(socket.acks_owed)],
      ["Data", bytes(socket.data_bytes)],
      ["Recovery", recovery],
      ["Rooms", counted(socket.room_count, "room")],
    ]);
    const sign = JSON.stringify([socket.rooms, socket.room_count]);
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
    const who: Words = ["Socket ", mono(socket.id)];
    if (socket.user !== null) who.push(" of ", named(socket.user));
    const sure = await view.confirm.ask({
      title: close ? "Disconnect it and close its connection?" : "Disconnect this socket?",
      text: close
        ? [...who, ": its connection ends, with all its namespaces."]
        : [...who, " leaves the namespace ", named(socket.namespace), "."],
      yes: close ? "Disconnect and close" : "Disconnect",
    });
    if (!sure) return;
    const order = { namespace: socket.namespace, sockets: [socket.id], close };
    try {
      await view.api.post("/v1/disconnect", JSON.stringify(order));
      view.notice.say([...who, " is put out."], "ok");
    } catch (error) {
      view.notice.fail(error);
    }
  }
}

/** `seconds` and `now` are of the node's clock. */
function expiry(seconds: number | null, now: number): string {
  if (seconds === null) return "never";
  const left = seconds - now / 1000;
  return left > 0 ? `in ${duration(left)}` : "expired";
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
    "This node has no such session or socket, and it is not among the last ends. It may be on another node, or may have left its namespace.";
  return section("Not here", make("p", "about", text));
}
