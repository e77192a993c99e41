// Names with half of a surrogate pair: UTF-8, in which the gateway hears names, has no place for it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { stage } from "./stage.mjs";

let here;
before(async () => (here = await stage()));
after(() => here.close());

/** What is said on the console meanwhile. */
async function told(act) {
  const lines = [];
  const { error } = console;
  console.error = (line) => lines.push(line);
  try {
    await act();
  } finally {
    console.error = error;
  }
  return lines;
}

async function inRoom(room) {
  const io = await here.server();
  io.on("connection", (socket) => {
    socket.on("join", (room, done) => (socket.join(room), done([...socket.rooms].filter((name) => name !== socket.id))));
    socket.on("say", (event, done) => (socket.emit(event), done()));
    socket.on("echo", (value, done) => done(value));
  });
  const client = here.open();
  const heard = [];
  client.onAny((event, value) => heard.push([event, value]));
  assert.deepEqual(await client.emitWithAck("join", room), [room]);
  return { io, client, heard };
}

test("rooms with half of a surrogate pair were all one room", async () => {
  const { io, client, heard } = await inRoom("\ufffd");
  const other = here.open();
  const lines = await told(async () => {
    for (const room of ["\ud800", "a\udc00"]) assert.deepEqual(await other.emitWithAck("join", room), []);
    io.in("\ufffd").socketsJoin(["\ud801", "good"]);
  });
  for (const [at, room] of ['"\\ud800"', '"a\\udc00"', '"\\ud801"'].entries()) assert.match(lines[at], new RegExp(`cannot join room ${room.replaceAll("\\", "\\\\")}: `));
  assert.equal(lines.length, 3);
  io.to("\ud800").emit("nobody");
  io.in("\udfff").socketsLeave("good");
  io.in("\ufffd").socketsLeave("\ud800");
  io.in("\ud800").disconnectSockets();
  assert.equal(await io.in("\ud800").fetchSockets().then(({ length }) => length), 0);
  assert.deepEqual((await io.in("\ufffd").fetchSockets()).map(({ id, rooms }) => [id, [...rooms].sort()]), [[client.id, [client.id, "good", "\ufffd"].sort()]]);
  io.except("\ud800").emit("all", 1);
  io.to(["\ud800", "good"]).emit("good", 2);
  assert.equal(await client.emitWithAck("echo", 3), 3);
  assert.deepEqual(heard, [["all", 1], ["good", 2]]);
  client.disconnect();
  other.disconnect();
  await io.close();
});

test("events with half of a surrogate pair were all one event, and what they say is kept", async () => {
  const { io, client, heard } = await inRoom("r");
  const lines = await told(async () => {
    await client.emitWithAck("say", "e\ud800");
    io.to("r").emit("e\ud801");
    io.serverSideEmit("e\ud802");
    await assert.rejects(io.serverSideEmitWithAck("e\ud803"));
    io.to("r").emit("e\ufffd", "\ud800");
    assert.equal(await client.emitWithAck("echo", "\udc00!"), "\udc00!");
  });
  assert.deepEqual(heard, [["e\ufffd", "\ud800"]]);
  assert.equal(io.dropped, 4);
  assert.deepEqual(lines.map((line) => line.match(/event ("\S+")/)?.[1]), [800, 801, 802, 803].map((half) => `"e\\ud${half}"`));
  client.disconnect();
  await io.close();
});
