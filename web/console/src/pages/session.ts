// One session: how it is connected, what waits for it, its sockets; or why it ended.

import { icon, make } from "../../../chat/src/dom.ts";
import type { End, Ends, Kernel, SessionHere, SessionsHere, SocketHere } from "../answers.ts";
import { Problem } from "../api.ts";
import { missing } from "../everywhere.ts";
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
  /** The node that has it, if that is not the one that serves the page. */
  #node: string;
  /** Nodes that were asked in vain. */
  #missing = "";
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
    this.#node = view.route.query.get("node") ?? "";
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
    this.#show(state, () => [end ? ended(end) : unknown(this.#missing)]);
  }

  /** The session, by any of the sockets that it had when it was seen last. */
  async #find(): Promise<SessionHere | undefined> {
    const others = this.#end ? [] : (this.#last?.sockets ?? []).map(({ id }) => id);
    const ids = [...new Set([this.#id, ...others])];
    for (const id of ids) {
      const answer = await this.#ask(id, this.#node === "" ? undefined : this.#node);
      const [found] = answer.sessions;
      if (found) {
        this.#id = id;
        return found;
      }
      if (!answer.complete) throw unsure(missing(false, answer.nodes));
    }
    return this.#last || this.#node !== "" ? undefined : await this.#findElsewhere();
  }

  /** One that was never here may be at another node. */
  async #findElsewhere(): Promise<SessionHere | undefined> {
    const answer = await this.#ask(this.#id, "");
    const [found] = answer.sessions;
    this.#missing = missing(answer.complete, answer.nodes);
    if (found?.node !== undefined) this.#node = String(found.node);
    return found;
  }

  /** `node`: that one, all if it is empty, or the one that serves the page. */
  async #ask(id: string, node: string | undefined): Promise<SessionsHere> {
    const [path, where] =
      node === undefined ? ["/v1/node/sessions", {}] : ["/v1/nodes/sessions", { node }];
    const call = callPath(path, { id, limit: 1, ...where });
    return await this.view.api.get<SessionsHere>(call, this.view.signal);
  }

  async #findEnd(): Promise<End | undefined> {
    const own = this.#node === "";
    const path = callPath(own ? "/v1/node/ends" : "/v1/nodes/ends", {
      limit: ENDS_ASKED,
      node: this.#node,
    });
    const { ends, complete } = await this.view.api.get<Ends>(path, this.view.signal);
    const ids = new Set([this.view.route.rest, ...(this.#last?.sockets ?? []).map(({ id }) => id)]);
    const end = ends.find(({ session, socket }) => ids.has(session) || ids.has(socket ?? ""));
    if (!end && !complete) throw unsure("");
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
function unsure(why: string): Problem {
  if (why.includes("Node")) return new Problem(0, "The session cannot be looked at", why.trim());
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
    ["Node", found.node === undefined ? "this one" : `${found.node}`],
    ["Program", found.agent === null ? "not told" : given(found.agent)],
    ["Claims of its token", claims(found)],
    ["Waiting to be sent", bytes(found.waiting_bytes)],
    ["Unread input", bytes(found.input_bytes)],
    [
      "Last ping answered within",
      found.round_trip_ms === null ? NONE : millis(found.round_trip_ms),
    ],
    ["Ping unanswered for", millis(found.silent_ms)],
    ["Rates used", rates(found)],
    ["Rejections", count(found.rejections)],
    ...kernel(found.kernel),
  ];
}

/** Of a rate that nodes share, this node's part. */
function rates({ rates: all }: SessionHere): string {
  const used = all.map(({ scope, used, of }) => `${scope} ${count(used)} of ${count(of)}`);
  return used.join(", ") || "no rate holds";
}

/** Names and kinds: a value may be a secret. */
function claims({ claims: all }: SessionHere): Node | string {
  if (all.length === 0) return "no token";
  const list = make("span");
  all.forEach(({ name, kind }, n) => {
    list.append(n === 0 ? "" : ", ", given(name), ` (${kind})`);
  });
  return list;
}

function kernel(figures: Kernel | null): [string, string][] {
  if (!figures) return [["Kernel", "no connection now, or it does not tell"]];
  const { rtt_us, rtt_var_us, retransmits, timeouts, unacked_bytes, unsent_bytes } = figures;
  const late = timeouts > 0 ? `, ${counted(timeouts, "timeout")} in a row now` : "";
  return [
    ["Round trip, as the kernel has it", `${millis(rtt_us / 1000)} ± ${millis(rtt_var_us / 1000)}`],
    ["Sent again by the kernel", `${counted(retransmits, "segment")}${late}`],
    ["Sent, not acknowledged", bytes(unacked_bytes)],
    ["In the kernel, not sent", bytes(unsent_bytes)],
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
      ["Worker", workerOf(socket)],
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

function workerOf({ worker }: SocketHere): Node | string {
  if (!worker) return NONE;
  const text = make("span");
  text.append(given(worker.instance), " of ", given(worker.backend));
  return text;
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

function unknown(silent: string): HTMLElement {
  const text =
    "No node that answered has such a session or socket, and it is not among the last ends of this one. It may have left its namespace.";
  return section("Not here", make("p", "about", `${text}${silent}`));
}
