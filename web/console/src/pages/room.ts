// One room: who is in it on all nodes.

import { make } from "../../../chat/src/dom.ts";
import type { Members, SocketsPage } from "../answers.ts";
import { Problem } from "../api.ts";
import { Facts, given, link, namesList } from "../controls.ts";
import { clock, count, NONE } from "../format.ts";
import { callPath, hrefTo, sessionHref } from "../route.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

const LIMIT = 200;
const NAMES_MAX = 8;
const DATA_CHARS_MAX = 200;
const EVERY_MS = 5000;

interface Row {
  id: string;
  rooms: number;
  data: string;
}

export function oneRoom(view: View, namespace: string, room: string): void {
  const emit = link(hrefTo("try", { namespace, room }), "Send an event to it", "button plain");
  const follow = link(hrefTo("trace", { namespace, room }), "Follow it", "button plain");
  view.head("Room", "", follow, emit);
  view.root.querySelector("h1")?.replaceChildren("Room ", given(room));
  const about = make("p", "about");
  about.append(
    "In the namespace ",
    given(namespace),
    ", on all nodes. ",
    link("#/rooms", "All rooms"),
  );
  view.root.querySelector(".about")?.replaceWith(about);
  const figures = new Facts();
  const table = new Table<Row>(
    "Sockets in the room",
    [
      {
        head: "Socket",
        text: ({ id }) => id,
        node: ({ id }) => link(sessionHref(id), id, "mono"),
      },
      { head: "Rooms", text: ({ rooms }) => count(rooms), figure: true },
      { head: "Data", text: ({ data }) => data, className: "name mono" },
    ],
    ({ id }) => id,
    "Nobody is in this room now.",
  );
  view.add(figures.element, table.element);
  /** A namespace without presence is asked once. */
  let isKept = true;
  const presence = async (path: string) => {
    const people = isKept ? await presentPeople(view, path) : undefined;
    isKept = people !== undefined;
    return people ?? "not kept for this room";
  };
  view.every(EVERY_MS, async () => {
    const query = { namespace, room };
    const path = callPath("/v1/sockets", { ...query, limit: LIMIT });
    const [answer, people] = await Promise.all([
      view.api.get<SocketsPage>(path, view.signal),
      presence(callPath("/v1/presence", query)),
    ]);
    table.render(
      answer.sockets.map(({ id, rooms, data }) => ({
        id,
        rooms: rooms.length,
        data: data === undefined || data === null ? NONE : cut(JSON.stringify(data)),
      })),
    );
    const more = answer.next ? `the first ${LIMIT} shown` : "all shown";
    const part = answer.complete ? more : "a node did not answer in time";
    figures.show([
      ["Sockets", `${count(answer.sockets.length)}${answer.next ? " and more" : ""}, ${part}`],
      ["Presence", people],
      ["Read at", clock(Date.now())],
    ]);
  });
}

/** The whole of it may have some KiB. */
function cut(text: string): string {
  return text.length > DATA_CHARS_MAX ? `${text.slice(0, DATA_CHARS_MAX)}…` : text;
}

/** Nothing where presence is not kept. */
async function presentPeople(view: View, path: string): Promise<Node | undefined> {
  try {
    const { count: people, members } = await view.api.get<Members>(path, view.signal);
    const users = [...new Set((members ?? []).flatMap(({ user }) => user || []))];
    const text = make("span", "", `${count(people)} here${users.length > 0 ? ": " : ""}`);
    text.append(namesList(users.slice(0, NAMES_MAX)), users.length > NAMES_MAX ? " …" : "");
    return text;
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}
