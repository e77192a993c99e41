// Socket.IO: the ways a socket or its connection ends, as packets.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { connect, disconnect, event } from "../peer/packet.js";
import { eventually, sleep, within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor } from "../peer/session.js";
import { WebSocketSession } from "../peer/websocket.js";

const DISCONNECT = 1;

async function joinedTwice(t, Transport) {
  const session = await openFor(t, Transport);
  await session.join("/");
  await session.join("/lab");
  return session;
}

/**
 * Until a 41 is handled, by a question in the main namespace. Node puts it off to the next tick, so a CONNECT in the same
 * segment would still find the old socket and close the connection. Real clients never do that.
 */
const handled = async (session) => assert.deepEqual(await session.ask("/", 9, "message-with-ack", "on"), ["on"]);

/** All Socket.IO packets that still come until the session ends. */
async function lastPackets(session) {
  const packets = [];
  try {
    for (;;) packets.push(await session.next("the end"));
  } catch (error) {
    if (!/closed with|answered 400/.test(error.message)) throw error;
  }
  return packets.filter((packet) => packet !== "1");
}

for (const Transport of [Polling, WebSocketSession]) {
  describe(`disconnecting over ${Transport.transport}`, () => {
    test("disconnect() is `41/lab,` and the transport stays for the other namespace", async (t) => {
      const session = await joinedTwice(t, Transport);
      await session.send(event("/lab", ["kick"]));
      assert.equal(await session.next(), "41/lab,");
      await session.send('420["message-with-ack","on"]');
      assert.equal(await session.next(), '430["on"]');
      assert.match((await session.join("/lab")).sid, /^.{20}$/);
    });

    test("disconnect() of the last namespace leaves the transport open", async (t) => {
      const session = await openFor(t, Transport);
      await session.join("/lab");
      await session.send(event("/lab", ["kick"]));
      assert.equal(await session.next(), "41/lab,");
      assert.match((await session.join("/lab")).sid, /^.{20}$/);
    });

    test("disconnect(true) is 41 for every namespace, then the close", async (t) => {
      const session = await joinedTwice(t, Transport);
      await session.send(event("/lab", ["kick-close"]));
      assert.deepEqual((await lastPackets(session)).sort(), ["41", "41/lab,"].sort());
    });

    test("a closed connection says no 41", async (t) => {
      const session = await joinedTwice(t, Transport);
      await session.send(event("/lab", ["drop"]));
      assert.deepEqual(await lastPackets(session), []);
    });

    test("a 41 from the client is not answered, the other namespace goes on", async (t) => {
      const session = await joinedTwice(t, Transport);
      await session.send(disconnect("/lab"));
      await session.send('420["message-with-ack","next"]');
      assert.equal(await session.next(), '430["next"]');
      await session.send(connect("/lab"));
      assert.equal((await session.read()).namespace, "/lab");
    });

    test("leaving every namespace keeps the transport for the next CONNECT", async (t) => {
      const session = await joinedTwice(t, Transport);
      await session.send(disconnect("/lab"), disconnect("/"));
      await sleep(100);
      assert.match((await session.join("/custom")).sid, /^.{20}$/);
    });

    test("a new CONNECT after a 41 gives a new id and none of the old rooms", async (t) => {
      const session = await openFor(t, Transport);
      await session.join("/");
      const first = await session.join("/lab");
      await session.ask("/lab", 0, "join", "a room");
      await session.send(disconnect("/lab"));
      await handled(session);
      const second = await session.join("/lab");
      assert.notEqual(second.sid, first.sid);
      assert.deepEqual(await session.ask("/lab", 0, "join", "another"), [[second.sid, "another"]]);
    });

    test("one late event after a kick closes the connection or is ignored, as Node or kinder", async (t) => {
      const session = await joinedTwice(t, Transport);
      await session.send(event("/lab", ["kick"]));
      assert.equal(await session.next(), "41/lab,");
      await session.send(event("/lab", ["echo", "late"])).catch(() => {});
      const outcome = await within(Promise.race([session.ended().then(() => "ended"), answered(session)]), "an end or an answer");
      assert.ok(["ended", "answered"].includes(outcome), outcome);
    });

    test("the server tells the others nothing, but forgets the socket's rooms", async (t) => {
      const observer = await openFor(t, WebSocketSession);
      await observer.join("/lab");
      const session = await openFor(t, Transport);
      const { sid } = await session.join("/lab");
      await session.send(disconnect("/lab"));
      await eventually(async () => {
        const [error, found] = await observer.ask("/lab", 0, "fetch", sid);
        assert.equal(error, null);
        return found.length === 0;
      }, "the socket's own room is forgotten");
      await session.join("/lab");
      await session.send(event("/lab", ["drop"]));
      await lastPackets(session);
    });
  });
}

test("a DISCONNECT without its comma counts as well", async (t) => {
  const session = await joinedTwice(t, WebSocketSession);
  await session.send("41/lab");
  await handled(session);
  const reply = await session.join("/lab");
  assert.match(reply.sid, /^.{20}$/);
  await session.send(event("/lab", ["kick"]));
  assert.equal((await session.read()).type, DISCONNECT);
});

async function answered(session) {
  try {
    await session.send('429["message-with-ack","on"]');
    for (;;) if ((await session.next()) === '439["on"]') return "answered";
  } catch (error) {
    if (!/closed with|answered/.test(error.message)) throw error;
    return "ended";
  }
}
