// The steps of a raw upgrade from polling to WebSocket.
import assert from "node:assert/strict";
import { within } from "./patience.js";
import { WebSocketSession } from "./websocket.js";

export async function openUpgrade(t, session) {
  const socket = await WebSocketSession.upgrade(session);
  t.after(() => socket.close());
  return socket;
}

export async function probe(t, session) {
  const socket = await openUpgrade(t, session);
  await socket.send("2probe");
  assert.equal(await socket.next("the probe's answer"), "3probe");
  return socket;
}

/** A poll's answer; one that is only a heartbeat is answered and polled again. */
export async function notPing(session, poll = session.get()) {
  const answer = await within(poll, "the poll");
  if (answer.body !== "2") return answer;
  await session.send("3");
  return notPing(session);
}
