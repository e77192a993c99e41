// One room: who is in it on all nodes.

import { make } from "../../../chat/src/dom.ts";
import type { Members, SocketsPage } from "../answers.ts";
import { Problem } from "../api.ts";
import { facts, given, link } from "../controls.ts";
import { clock, count, NONE } from "../format.ts";
import { callPath, hrefTo, sessionHref } from "../route.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

const LIMIT = 200;
const EVERY_MS = 5000;

interface Row {
  id: string;
  rooms: number;
  data: string;
}

export function oneRoom(view: View, namespace: string, room: string): void {
  const emit = link(hrefTo("try", { namespace, room }), "Send an event to it", "button plain");
  view.head("Room", "", emit);
  view.root.querySelector("h1")?.replaceChildren("Room ", given(room));
  const about = make("p", "about");
  about.append("In the namespace ", given(namespace), ". ", link("#/rooms", "All rooms"));
  view.root.querySelector(".about")?.replaceWith(about);
  const figures = make("div");
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
  view.add(figures, table.element);
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
        data: data === undefined || data === null ? NONE : JSON.stringify(data),
      })),
    );
    const more = answer.next ? `the first ${LIMIT} shown` : "all shown";
    const part = answer.complete ? more : "a node did not answer in time";
    figures.replaceChildren(
      facts([
        ["Sockets", `${count(answer.sockets.length)}${answer.next ? " and more" : ""}, ${part}`],
        ["Presence", people],
        ["Read at", clock(Date.now())],
      ]),
    );
  });
}

/** Nothing where presence is not kept. */
async function presentPeople(view: View, path: string): Promise<string | undefined> {
  try {
    const { count: people, members } = await view.api.get<Members>(path, view.signal);
    const users = new Set((members ?? []).map(({ user }) => user).filter((user) => user));
    const named = [...users].slice(0, 8).join(", ");
    return `${count(people)} here${named && `: ${named}${users.size > 8 ? " …" : ""}`}`;
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}
