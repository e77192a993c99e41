// Sessions of this node or of all, found by user, socket, address, room or namespace.

import { make } from "../../../chat/src/dom.ts";
import type { SessionHere, SessionsHere } from "../answers.ts";
import { badge, button, choiceField, given, link, namesList, textField } from "../controls.ts";
import { missing, places, type Where, whereChoice, whereOf } from "../everywhere.ts";
import { bytes, clock, count, counted, millis, NONE } from "../format.ts";
import { callPath, rememberQuery, sessionHref } from "../route.ts";
import { Table } from "../table.ts";
import type { View } from "../view.ts";

const FIELDS: [name: string, label: string][] = [
  ["user", "User"],
  ["id", "Session or socket"],
  ["room", "Room"],
  ["address", "Address"],
  ["namespace", "Namespace"],
];

/** The users of a session's sockets, each once. */
function users({ sockets }: SessionHere): string[] {
  return [...new Set(sockets.map(({ user }) => user).filter((user) => user !== null))];
}

function userNames(session: SessionHere): Node {
  const names = users(session);
  if (names.length > 1) return namesList(names);
  return names[0] === undefined ? make("span", "", NONE) : given(names[0]);
}

function acksOwed(session: SessionHere): number {
  return session.sockets.reduce((sum, { acks_owed }) => sum + acks_owed, 0);
}

function roomCount(session: SessionHere): number {
  return session.sockets.reduce((sum, { room_count }) => sum + room_count, 0);
}

/** A live session's id is cut: it is known by its first socket. */
function sessionKey({ id, sockets }: SessionHere): string {
  return `${id} ${sockets[0]?.id ?? ""}`;
}

function sessionLink({ id, sockets, node }: SessionHere): HTMLElement {
  const [socket] = sockets;
  return socket ? link(sessionHref(socket.id, node), socket.id, "mono") : make("span", "mono", id);
}

const NODE = { head: "Node", text: ({ node }: SessionHere) => `${node ?? NONE}`, figure: true };

const table = (where: Where) =>
  new Table<SessionHere>(
    "Sessions",
    [
      { head: "First socket", text: sessionKey, node: sessionLink },
      {
        head: "User",
        text: (session) => JSON.stringify(users(session)),
        node: userNames,
        className: "name",
      },
      ...(where === "nodes" ? [NODE] : []),
      { head: "Address", text: ({ address }) => address, className: "mono" },
      {
        head: "Transport",
        text: ({ transport, upgrading }) => `${transport}${upgrading ? " (upgrading)" : ""}`,
        node: ({ transport, upgrading }) => badge(upgrading ? `${transport} ↑` : transport),
      },
      { head: "Protocol", text: ({ protocol, parser }) => `${protocol}, ${parser}` },
      { head: "Sockets", text: ({ socket_count }) => count(socket_count), figure: true },
      { head: "Rooms", text: (session) => count(roomCount(session)), figure: true },
      { head: "Waiting", text: ({ waiting_bytes }) => bytes(waiting_bytes), figure: true },
      { head: "Acks owed", text: (session) => count(acksOwed(session)), figure: true },
      { head: "Silent", text: ({ silent_ms }) => millis(silent_ms), figure: true },
      { head: "Rejected", text: ({ rejections }) => count(rejections), figure: true },
    ],
    sessionKey,
    "No session matches.",
  );

export function sessions(view: View): void {
  const inputs = FIELDS.map(([name, label]) => ({
    name,
    ...textField(label, view.route.query.get(name) ?? "", "any"),
  }));
  const limit = choiceField(
    "Show",
    [
      ["50", "50"],
      ["100", "100"],
      ["200", "200"],
    ],
    "50",
  );
  const found = make("p", "found");
  found.setAttribute("role", "status");
  let where = whereOf(view.route.query);
  const lists = { node: table("node"), nodes: table("nodes") };
  const choice = whereChoice("Which sessions", where, (chosen) => {
    where = chosen;
    void view.once(look);
  });
  let asked = 0;
  const look = async () => {
    asked += 1;
    const mine = asked;
    const query = Object.fromEntries(inputs.map(({ name, input }) => [name, input.value.trim()]));
    rememberQuery("sessions", { ...query, where: where === "nodes" ? where : "" });
    const path = callPath(`/v1/${where}/sessions`, { ...query, limit: limit.input.value });
    const answer = await view.api.get<SessionsHere>(path, view.signal);
    // A slower answer to the question before must not stand under this one.
    if (mine !== asked) return;
    for (const name of ["node", "nodes"] as const) lists[name].element.hidden = name !== where;
    lists[where].render(answer.sessions);
    const shown =
      answer.sessions.length < answer.matched ? `, ${count(answer.sessions.length)} shown` : "";
    const part = missing(answer.complete, answer.nodes);
    found.textContent = `${counted(answer.matched, "session")} ${places(where, answer.nodes)}${shown}, at ${clock(Date.now())}.${part}`;
  };
  view.head(
    "Sessions",
    "One that has a socket opens with its connection, sockets, rooms and queues.",
    choice,
  );
  const form = make("form", "filters");
  const find = button("Find", "primary", () => {});
  find.type = "submit";
  form.append(...inputs.map(({ element }) => element), limit.element, find);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void view.once(look);
  });
  lists.nodes.element.hidden = true;
  view.add(form, found, lists.node.element, lists.nodes.element);
  void view.once(look);
}
