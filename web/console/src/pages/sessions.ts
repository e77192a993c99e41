// Sessions of this node, found by user, socket, address, room or namespace.

import { make } from "../../../chat/src/dom.ts";
import type { SessionHere, SessionsHere } from "../answers.ts";
import { badge, button, choiceField, given, link, namesList, textField } from "../controls.ts";
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

function sessionLink({ id, sockets }: SessionHere): HTMLElement {
  const [socket] = sockets;
  return socket ? link(sessionHref(socket.id), socket.id, "mono") : make("span", "mono", id);
}

const table = () =>
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
    "No session of this node matches.",
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
  const list = table();
  let asked = 0;
  const look = async () => {
    asked += 1;
    const mine = asked;
    const query = Object.fromEntries(inputs.map(({ name, input }) => [name, input.value.trim()]));
    rememberQuery("sessions", query);
    const path = callPath("/v1/node/sessions", { ...query, limit: limit.input.value });
    const answer = await view.api.get<SessionsHere>(path, view.signal);
    // A slower answer to the question before must not stand under this one.
    if (mine !== asked) return;
    list.render(answer.sessions);
    const shown =
      answer.sessions.length < answer.matched ? `, ${count(answer.sessions.length)} shown` : "";
    const part = answer.complete ? "" : " A shard did not answer in time: there may be more.";
    found.textContent = `${counted(answer.matched, "session")} on this node${shown}, at ${clock(Date.now())}.${part}`;
  };
  view.head(
    "Sessions",
    "Clients of this node. One that has a socket opens with its sockets, rooms and queues.",
  );
  const form = make("form", "filters");
  const find = button("Find", "primary", () => {});
  find.type = "submit";
  form.append(...inputs.map(({ element }) => element), limit.element, find);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void view.once(look);
  });
  view.add(form, found, list.element);
  void view.once(look);
}
