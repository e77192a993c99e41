// Rooms: the largest of this node or of all by a part of their name, or all of the cluster by its beginning.

import { make } from "../../../chat/src/dom.ts";
import type { RoomHere, RoomsHere, RoomsPage } from "../answers.ts";
import { button, choiceField, link, segments, textField } from "../controls.ts";
import { missing } from "../everywhere.ts";
import { bytes, clock, count, counted, NONE, rate } from "../format.ts";
import { callPath, rememberQuery, roomHref } from "../route.ts";
import { type Column, Table } from "../table.ts";
import type { View } from "../view.ts";
import { oneRoom } from "./room.ts";

const LIMIT = 100;
const EVERY_MS = 5000;

export function rooms(view: View): void {
  const { query } = view.route;
  const room = query.get("room");
  if (room !== null) oneRoom(view, query.get("namespace") ?? "/", room);
  else new RoomSearch(view).open();
}

/** How what is found is told, by the order. */
const ORDERS: Record<string, { first: string; which?: string }> = {
  "": { first: "largest" },
  busiest: { first: "busiest", which: " with traffic lately, of a sample" },
  slowest: { first: "slowest", which: " with members for whom something waits" },
};

/** Of a sample. */
const about = (perSecond: number | null | undefined): string =>
  perSecond === null || perSecond === undefined ? NONE : rate(perSecond);

class RoomSearch {
  #where = "node";
  #namespace = textField("Namespace", "", "any");
  #name = textField("Name contains", "", "any");
  #limit = choiceField(
    "Show",
    [
      ["100", "100"],
      ["500", "500"],
      ["1000", "1,000"],
    ],
    String(LIMIT),
  );
  #order = choiceField(
    "First",
    [
      ["", "the largest"],
      ["busiest", "the busiest"],
      ["slowest", "the slowest"],
    ],
    "",
  );
  #found = make("p", "found");
  #more = button("More", "plain", () => void this.view.once(() => this.#cluster(this.#next)));
  #next: string | undefined;
  #shown: RoomHere[] = [];
  #asked = 0;
  /** What "Find" took from the fields: half a name that is being typed is not asked for. */
  #wanted = { namespace: "", name: "", limit: LIMIT, order: "" };
  /** One for each order: each has figures that the others have not. */
  #tables: Record<string, Table<RoomHere>> = {
    "": this.#newTable([]),
    busiest: this.#newTable([
      {
        head: "Events /s",
        text: ({ events_per_second }) => about(events_per_second),
        figure: true,
      },
      {
        head: "Deliveries /s",
        text: ({ deliveries_per_second }) => about(deliveries_per_second),
        figure: true,
      },
    ]),
    slowest: this.#newTable([
      {
        head: "Members that wait",
        text: ({ members_behind }) => count(members_behind ?? 0),
        figure: true,
      },
      {
        head: "Waits for them",
        text: ({ waiting_bytes }) => bytes(waiting_bytes ?? 0),
        figure: true,
      },
    ]),
  };

  constructor(readonly view: View) {}

  #newTable(more: Column<RoomHere>[]): Table<RoomHere> {
    return new Table<RoomHere>(
      "Rooms",
      [
        {
          head: "Room",
          text: ({ namespace, room }) => `${namespace} ${room}`,
          node: ({ namespace, room }) => link(roomHref(namespace, room), room),
          className: "name",
        },
        { head: "Namespace", text: ({ namespace }) => namespace, className: "name" },
        {
          head: "Members",
          text: ({ members }) => `${members} of ${this.#most}`,
          node: ({ members }) => this.#size(members),
          figure: true,
        },
        ...more,
      ],
      ({ namespace, room }) => `${namespace} ${room}`,
      "No room matches.",
    );
  }

  get #most(): number {
    return Math.max(1, ...this.#shown.map(({ members }) => members));
  }

  /** The figure, and its length beside the largest one's. */
  #size(members: number): HTMLElement {
    const size = make("span", "size");
    const bar = make("i");
    bar.style.width = `${(100 * members) / this.#most}%`;
    const track = make("span", "track");
    track.append(bar);
    size.append(track, make("span", "", count(members)));
    return size;
  }

  open(): void {
    const { view } = this;
    const { query } = view.route;
    const where = query.get("where") ?? "";
    this.#where = ["nodes", "cluster"].includes(where) ? where : "node";
    this.#namespace.input.value = query.get("namespace") ?? "";
    this.#name.input.value = query.get("contains") ?? "";
    const choice = segments(
      "Which rooms",
      [
        ["node", "On this node"],
        ["nodes", "On all nodes"],
        ["cluster", "By name"],
      ],
      this.#where,
      (value) => {
        this.#where = value;
        this.#look();
      },
    );
    const order = query.get("order") ?? "";
    this.#order.input.value = order in ORDERS ? order : "";
    const orders = "The largest, the busiest or the slowest first";
    view.head("Rooms", `${orders}. A room opens with its members.`, choice);
    const form = make("form", "filters");
    const find = button("Find", "primary", () => {});
    find.type = "submit";
    form.append(this.#namespace.element, this.#name.element, this.#order.element);
    form.append(this.#limit.element, find);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#look();
    });
    this.#found.setAttribute("role", "status");
    this.#more.hidden = true;
    const tables = Object.values(this.#tables).map(({ element }) => element);
    view.add(form, this.#found, ...tables, this.#more);
    this.#prepare();
    // The list of the cluster costs every node something: only a person asks for it.
    if (this.#where !== "node") this.#look();
    view.every(EVERY_MS, async () => {
      if (this.#where === "node") await this.#largest();
    });
  }

  #look(): void {
    this.#prepare();
    void this.view.once(() => (this.#where === "cluster" ? this.#cluster() : this.#largest()));
  }

  /** Labels and address say what is asked for from now on. */
  #prepare(): void {
    const label = this.#name.element.querySelector("label");
    const cluster = this.#where === "cluster";
    if (label) label.textContent = cluster ? "Name begins with" : "Name contains";
    this.#namespace.input.placeholder = cluster ? "/" : "any";
    const [namespace, name] = [this.#namespace.input.value, this.#name.input.value];
    const order = cluster ? "" : this.#order.input.value;
    this.#order.element.hidden = cluster;
    this.#wanted = { namespace, name, limit: Number(this.#limit.input.value), order };
    for (const [of, { element }] of Object.entries(this.#tables)) element.hidden = of !== order;
    rememberQuery("rooms", {
      where: this.#where === "node" ? "" : this.#where,
      namespace,
      contains: name,
      order,
    });
    this.#more.hidden = true;
  }

  async #largest(): Promise<void> {
    this.#asked += 1;
    const asked = this.#asked;
    const { namespace, name, limit, order } = this.#wanted;
    const query = { namespace, contains: name, limit, order };
    const path = callPath(`/v1/${this.#where}/rooms`, query);
    const answer = await this.view.api.get<RoomsHere>(path, this.view.signal);
    if (asked !== this.#asked) return;
    this.#shown = answer.rooms;
    this.#tables[order]?.render(this.#shown);
    const part = missing(answer.complete, answer.nodes);
    const rooms = counted(answer.rooms.length, "room");
    const { first = "", which = "" } = ORDERS[order] ?? {};
    const shown = `${answer.more ? `The ${first} ${rooms}, of more` : rooms}${which}`;
    this.#found.textContent = `${shown}, at ${clock(Date.now())}.${part}`;
  }

  async #cluster(after = ""): Promise<void> {
    this.#asked += 1;
    const asked = this.#asked;
    const { name, limit } = this.#wanted;
    const namespace = this.#wanted.namespace || "/";
    const path = callPath("/v1/rooms", { namespace, prefix: name, limit, after });
    const answer = await this.view.api.get<RoomsPage>(path, this.view.signal);
    if (asked !== this.#asked) return;
    const page = answer.rooms.map(({ room, sockets }) => ({ namespace, room, members: sockets }));
    this.#shown = after === "" ? page : [...this.#shown, ...page];
    this.#tables[""]?.render(this.#shown);
    this.#next = answer.next ?? undefined;
    this.#more.hidden = this.#next === undefined;
    const part = answer.complete ? "" : " A node did not answer in time: there may be more.";
    this.#found.textContent = `${counted(this.#shown.length, "room")}${this.#next ? " so far" : ""} by name, at ${clock(Date.now())}.${part}`;
  }
}
