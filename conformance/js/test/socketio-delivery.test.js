// Socket.IO: who gets which packets, how many at a time, and in which order.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ack, binaryEvent, event, placeholder, read, SEPARATOR } from "../peer/packet.js";
import { within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor, PONG } from "../peer/session.js";
import { isReference } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

const upTo = (count) => Array.from({ length: count }, (_, i) => i);
let rooms = 0;
const freshRoom = () => `delivery-${process.pid}-${rooms++}`;

async function joined(t, Transport, room) {
  const session = await openFor(t, Transport);
  session.socketId = (await session.join("/lab")).sid;
  if (room !== undefined) await session.ask("/lab", 0, "join", room);
  return session;
}

describe("volatile", () => {
  test("polling: with no poll waiting the packet is dropped, never queued", async (t) => {
    const session = await joined(t, Polling);
    await session.send(event("/lab", ["volatile", "tick", 5]));
    await session.send(event("/lab", ["echo", "after"], 1));
    assert.equal(await session.next(), '43/lab,1["after"]');
    await session.send(event("/lab", ["echo", "later"], 2));
    assert.equal(await session.next(), '43/lab,2["later"]');
  });

  test("polling: a waiting poll takes the first of a burst", async (t) => {
    const session = await joined(t, Polling);
    const poll = firstMeaningful(session);
    // A pong that nobody asked for, sent behind the poll: its answer says that the poll is waiting.
    await session.send(PONG);
    await session.send(event("/lab", ["volatile", "tick", 5]));
    assert.deepEqual(read(await within(poll, "the poll")).data, ["tick", 0]);
  });

  test("websocket: what passes is in order and unique, then others follow", async (t) => {
    const session = await joined(t, WebSocketSession);
    await session.send(event("/lab", ["volatile", "tick", 1000]), event("/lab", ["echo", "after"], 1));
    const seen = [];
    for (;;) {
      const packet = await session.read();
      if (packet.type === 3) break;
      assert.equal(packet.data[0], "tick");
      seen.push(packet.data[1]);
    }
    assert.equal(seen[0], 0, "the first of a burst finds an idle connection");
    assert.deepEqual(seen, [...new Set(seen)].sort((a, b) => a - b));
  });
});

/** The first packet of the first answer that has one; a heartbeat in between is answered. */
async function firstMeaningful(session) {
  for (;;) {
    const answer = await session.get();
    if (answer.body.split(SEPARATOR).includes("2")) await session.send("3");
    const [first] = Polling.packets(answer);
    if (first !== undefined) return first;
  }
}

describe("bursts", () => {
  test("polling: 200 packets arrive complete and in order, at most 16 in one payload", async (t) => {
    const session = await joined(t, Polling);
    await session.send(event("/lab", ["burst", "tick", 200]));
    const seen = [];
    let largest = 0;
    while (seen.length < 200) {
      const answer = await session.get();
      const packets = answer.body.split(SEPARATOR);
      largest = Math.max(largest, packets.length);
      if (packets.includes("2")) await session.send("3");
      seen.push(...Polling.packets(answer).map((packet) => read(packet).data[1]));
    }
    assert.deepEqual(seen, upTo(200));
    // python-engineio drops a session that sends it more; Node does not mind.
    if (!isReference) assert.ok(largest <= 16, `${largest} packets in one payload`);
  });

  test("websocket: 2000 packets arrive complete and in order, one per frame", async (t) => {
    const session = await joined(t, WebSocketSession);
    await session.send(event("/lab", ["burst", "tick", 2000]));
    for (const i of upTo(2000)) assert.equal(await session.next(), `42/lab,["tick",${i}]`);
  });

  test("polling: many packets in one POST are handled in order", async (t) => {
    const session = await joined(t, Polling);
    await session.send(...upTo(200).map((i) => event("/lab", ["echo", i])));
    for (const i of upTo(200)) assert.equal(await session.next(), `42/lab,["echo",${i}]`);
  });

  test("polling: a payload never splits a binary event's packets across a lost one", async (t) => {
    const session = await joined(t, Polling);
    for (const i of upTo(30)) await session.send(binaryEvent("/lab", 2, ["echo", i, placeholder(0), placeholder(1)]), Buffer.from([i]), Buffer.from([i, i]));
    for (const i of upTo(30)) {
      assert.deepEqual((await session.read()).data, ["echo", i, placeholder(0), placeholder(1)]);
      assert.deepEqual([...(await session.nextBinary())], [i]);
      assert.deepEqual([...(await session.nextBinary())], [i, i]);
    }
  });
});

test("a binary event's header and attachments are never interleaved with other traffic", async (t) => {
  const room = freshRoom();
  const receiver = await joined(t, WebSocketSession, room);
  const senders = await Promise.all(upTo(4).map(() => joined(t, WebSocketSession)));
  const rounds = 50;
  for (const i of upTo(rounds)) {
    for (const [who, sender] of senders.entries()) {
      await sender.send(binaryEvent("/lab", 2, ["in", room, "blob", who, placeholder(0), placeholder(1)]), Buffer.from([who, i]), Buffer.from([i, who]));
      await sender.send(event("/lab", ["in", room, "text", who, i]));
    }
    await receiver.send(event("/lab", ["echo", i]));
  }
  const expected = senders.length * rounds * 2 + rounds;
  const counts = { blob: senders.map(() => 0), text: senders.map(() => 0), echo: 0 };
  for (let n = 0; n < expected; n++) {
    const { data: [name, who, i], attachments } = await receiver.read();
    if (name === "echo") assert.equal(who, counts.echo++);
    else if (name === "text") assert.equal(i, counts.text[who]++);
    else await assertBlob(receiver, who, counts.blob[who]++, attachments);
  }
});

async function assertBlob(receiver, who, round, attachments) {
  assert.equal(attachments, 2);
  assert.deepEqual([...(await receiver.nextBinary())], [who, round]);
  assert.deepEqual([...(await receiver.nextBinary())], [round, who]);
}

describe("rooms", () => {
  test("one copy for a socket in several target rooms, `except` wins", async (t) => {
    const [r1, r2, not] = [freshRoom(), freshRoom(), freshRoom()];
    const session = await joined(t, WebSocketSession, r1);
    await session.ask("/lab", 1, "join", r2);
    await session.send(event("/lab", ["in", [r1, r2, session.socketId], "once"]), event("/lab", ["echo", "marker"], 2));
    assert.deepEqual((await session.read()).data, ["once"]);
    assert.equal(await session.next(), '43/lab,2["marker"]');
    await session.ask("/lab", 3, "join", not);
    const never = `everyone-but-${not}`;
    await session.send(event("/lab", ["except", not, never]), event("/lab", ["echo", "marker"], 4));
    const heard = [];
    do heard.push(await session.nextRaw());
    while (heard.at(-1) !== '43/lab,4["marker"]');
    assert.ok(!heard.some((packet) => packet.includes(never)), `${heard}`);
  });

  test("the room named by a socket's id reaches it, from others and from itself", async (t) => {
    const [a, b] = [await joined(t, WebSocketSession), await joined(t, WebSocketSession)];
    await a.send(event("/lab", ["to", b.socketId, "direct", 1]));
    assert.deepEqual((await b.read()).data, ["direct", 1]);
    await a.send(event("/lab", ["in", a.socketId, "self", 1]));
    assert.deepEqual((await a.read()).data, ["self", 1]);
    await a.send(event("/lab", ["to", a.socketId, "never"]), event("/lab", ["echo"], 1));
    assert.equal(await a.next(), "43/lab,1[]");
  });

  test("the room of its own id, once left, is either gone or still works, as the list says", async (t) => {
    const session = await joined(t, WebSocketSession);
    // Node lets a socket leave it; a server that addresses sockets by id may keep it for good.
    const [list] = await session.ask("/lab", 0, "leave", session.socketId);
    assert.ok(list.length === 0 || list[0] === session.socketId, `${list}`);
    await session.send(event("/lab", ["in", session.socketId, "by id"]), event("/lab", ["echo"], 1));
    if (list.length > 0) assert.deepEqual((await session.read()).data, ["by id"]);
    assert.equal(await session.next(), "43/lab,1[]");
  });

  test("a numeric room can be joined and addressed", async (t) => {
    const number = 4_200_000 + process.pid;
    const session = await openFor(t, WebSocketSession);
    const { sid } = await session.join("/lab");
    const [list] = await session.ask("/lab", 0, "join", number);
    assert.deepEqual(list.map(String).sort(), [sid, String(number)].sort());
    await session.send(event("/lab", ["in", number, "numbered"]));
    assert.deepEqual((await session.read()).data, ["numbered"]);
  });

  test("room names may hold anything, glob signs and separators have no meaning", async (t) => {
    const names = ["*", "a*", "[a-z]", "a#b", "é 😀", "", " ", "a,b", '"', "a\u0000b"].map((name) => name + freshRoom());
    const session = await joined(t, WebSocketSession);
    for (const [i, name] of names.entries()) {
      const [list] = await session.ask("/lab", i, "join", name);
      assert.deepEqual(list.sort(), [session.socketId, name].sort());
      await session.send(event("/lab", ["in", name, "named", i]));
      assert.deepEqual((await session.read()).data, ["named", i]);
      await session.ask("/lab", 100 + i, "leave", name);
    }
    await session.send(event("/lab", ["in", `x${names[1]}`, "never"]), event("/lab", ["echo"], 1));
    assert.equal(await session.next(), "43/lab,1[]");
  });

  test("one broadcast reaches polling and websocket members alike, binary too", async (t) => {
    const room = freshRoom();
    const polling = await joined(t, Polling, room);
    const socket = await joined(t, WebSocketSession, room);
    await socket.send(binaryEvent("/lab", 1, ["in", room, "mixed", placeholder(0)]), Buffer.from([1, 2]));
    for (const member of [polling, socket]) {
      assert.deepEqual((await member.read()).data, ["mixed", placeholder(0)]);
      assert.deepEqual([...(await member.nextBinary())], [1, 2]);
    }
  });
});

describe("questions to many", () => {
  test("a broadcast question has one ack id for all, free of each member's pending ones", async (t) => {
    const room = freshRoom();
    const members = await Promise.all(upTo(3).map(() => joined(t, WebSocketSession, room)));
    const asked = [];
    for (const member of members) {
      await member.emit("/lab", "ask", "pending");
      asked.push((await member.read()).id);
    }
    await members[0].send(event("/lab", ["collect", room, 2000, "poll", "q"], 50));
    const questions = await Promise.all(members.map((member) => member.read()));
    const ids = new Set(questions.map(({ id }) => id));
    assert.equal(ids.size, 1);
    for (const [i, id] of asked.entries()) assert.ok(!ids.has(id), `member ${i} waits under id ${id} already`);
    for (const [i, member] of members.entries()) await member.send(ack("/lab", questions[i].id, [`answer ${i}`]));
    const result = await members[0].read();
    assert.deepEqual([result.id, result.data[0], result.data[1].sort()], [50, null, ["answer 0", "answer 1", "answer 2"]]);
    for (const [i, member] of members.entries()) {
      await member.send(ack("/lab", asked[i], [`own ${i}`]));
      assert.deepEqual((await member.read()).data, ["answer", `own ${i}`]);
    }
  });
});
