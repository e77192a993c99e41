// The page's model without a page: how history merges with what is known.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { load } from "./compiled.mjs";

const { Rooms } = await load("chat/src/rooms.ts");

function message(
  id,
  { content = `text ${id}`, sender = "other", timestamp = Number(id), room = "global" } = {},
) {
  return { id, sender, content, timestamp, room };
}

function contents(rooms, room = "global") {
  return rooms.open(room).messages.map((entry) => entry.content);
}

describe("rooms", () => {
  test("merge history in the order of the server, each message once", () => {
    const rooms = new Rooms();
    for (const id of ["2", "5"]) rooms.receive(message(id));
    const missed = rooms.receiveHistory(
      "global",
      ["1", "2", "4", "5", "6"].map((id) => message(id)),
    );
    assert.deepEqual(
      rooms.current().messages.map((entry) => entry.id),
      ["1", "2", "4", "5", "6"],
    );
    assert.deepEqual(
      missed.map((entry) => entry.id),
      ["6"],
    );
  });

  test("keep unconfirmed messages behind what was there, and place them when confirmed", () => {
    const rooms = new Rooms(["me"]);
    rooms.receive(message("1"));
    const mine = rooms.write("mine", "global", "Ada");
    rooms.receive(message("2"));
    assert.deepEqual(contents(rooms), ["text 1", "text 2", "mine"]);
    rooms.confirm(mine, "3", 3);
    rooms.receive(message("4"));
    assert.deepEqual(contents(rooms), ["text 1", "text 2", "mine", "text 4"]);
  });

  test("find an own message in history that was cut off before its ack", () => {
    const rooms = new Rooms(["old-id"]);
    const mine = rooms.write("did it arrive?", "global", "Ada");
    Object.assign(mine, { state: "failed", uncertain: true });
    rooms.addOwnId("new-id");
    rooms.receiveHistory("global", [message("7", { content: "did it arrive?", sender: "old-id" })]);
    assert.equal(rooms.current().messages.length, 1);
    assert.deepEqual([mine.state, mine.id], ["sent", "7"]);
  });

  test("do not come back by a message that was on its way when they were left", () => {
    const rooms = new Rooms();
    rooms.open("den");
    rooms.close("den");
    assert.equal(rooms.receive(message("1", { room: "den" })), undefined);
    assert.deepEqual([...rooms.all.keys()], ["global"]);
  });

  test("forget the oldest messages beyond 300", () => {
    const rooms = new Rooms();
    for (let id = 1; id <= 305; id += 1) rooms.receive(message(String(id)));
    assert.equal(rooms.current().messages.length, 300);
    assert.equal(rooms.current().messages[0].id, "6");
  });
});
