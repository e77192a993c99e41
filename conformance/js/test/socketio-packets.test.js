// Socket.IO: events, acks and attachments on the wire, and the packets that must be refused.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ack, binaryEvent, event, placeholder, read } from "../peer/packet.js";
import { within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor } from "../peer/session.js";
import { ATTACHMENTS_MAX, isReference, REFUSED_MS } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

const bytes = (...list) => Buffer.from(list);

async function joined(t, Transport, namespace = "/lab") {
  const session = await openFor(t, Transport);
  session.socketId = (await session.join(namespace)).sid;
  return session;
}

/** Over polling the POST of a refused packet may itself be cut off. */
async function assertRefused(session, ...packets) {
  await session.send(...packets).catch(() => {});
  await within(session.ended(), `the session to end after ${packets.map(String)}`, REFUSED_MS);
}

/** Names that sockets raise themselves; a peer that could send them could fake local events. */
const RESERVED = ["connect", "connect_error", "disconnect", "disconnecting", "newListener", "removeListener"];

const MALFORMED = {
  "an unknown packet type": "49[]",
  "a letter for a type": '4x["echo"]',
  "an event whose data is an object": '42/lab,{"echo":1}',
  "an event whose data is a text": '42/lab,"echo"',
  "an empty event": "42/lab,[]",
  "an event named by a boolean": "42/lab,[true]",
  "an event named by null": "42/lab,[null]",
  "an event named by an object": '42/lab,[{"toString":"echo"}]',
  "an event named by a list": '42/lab,[["echo"]]',
  "an event with broken JSON": '42/lab,["echo",',
  "an event with trailing garbage": '42/lab,["echo"]x',
  "an event with letters before the data": '42/lab,abc["echo"]',
  "an ack without a list": "43/lab,0{}",
  "an ack with broken JSON": "43/lab,0[",
  "a CONNECT with a list": "40/custom,[]",
  "a CONNECT with a text": '40/custom,"x"',
  "a CONNECT with broken JSON": '40/custom,{"a":',
  "a DISCONNECT with a payload": '41/lab,{"a":1}',
  "a binary event without a count": '45/lab,["echo"]',
  "a binary event with a count of zero": '450-/lab,["echo"]',
  "a binary event with a negative count": '45-1-/lab,["echo"]',
  "a binary event with a fraction for a count": '451.5-/lab,["echo"]',
  "a binary event with letters for a count": '45abc-/lab,["echo"]',
  "a binary event whose count never ends": "4511111",
};

for (const Transport of [Polling, WebSocketSession]) {
  describe(`packets over ${Transport.transport}`, () => {
    test("an event is answered in the main namespace without its name, elsewhere with it", async (t) => {
      const session = await openFor(t, Transport);
      await session.join("/");
      await session.join("/lab");
      await session.send('42["message",1,"2",{"3":[true]}]');
      assert.equal(await session.next(), '42["message-back",1,"2",{"3":[true]}]');
      await session.send('42/lab,["echo","x"]');
      assert.equal(await session.next(), '42/lab,["echo","x"]');
    });

    test("ack ids: 0 is one, the empty ack is `[]`, in a namespace the id follows the comma", async (t) => {
      const session = await openFor(t, Transport);
      await session.join("/");
      await session.join("/lab");
      for (const [sent, answer] of [
        ['420["message-with-ack"]', "430[]"],
        ['42456["message-with-ack",1,"2",{"3":[false]}]', '43456[1,"2",{"3":[false]}]'],
        ['42/lab,17["echo","a"]', '43/lab,17["a"]'],
        ['42/lab,0["echo"]', "43/lab,0[]"],
      ]) {
        await session.send(sent);
        assert.equal(await session.next(), answer);
      }
    });

    test("large ack ids come back as they went", async (t) => {
      const session = await joined(t, Transport);
      for (const id of ["1000000", "4294967296", "9007199254740991"]) {
        await session.send(`42/lab,${id}["echo",1]`);
        assert.equal(await session.next(), `43/lab,${id}[1]`);
      }
    });

    test("an event may be named by a number", async (t) => {
      const session = await joined(t, Transport);
      await session.send("42/lab,[7,1]");
      assert.deepEqual(await session.ask("/lab", 1, "echo", "alive"), ["alive"]);
    });

    test("the server's own questions carry ids that are unique while they wait", async (t) => {
      const session = await joined(t, Transport);
      for (let i = 0; i < 10; i++) await session.emit("/lab", "ask", i);
      const questions = [];
      while (questions.length < 10) questions.push(await session.read());
      assert.ok(questions.every(({ type, data }) => type === 2 && data[0] === "question"));
      assert.equal(new Set(questions.map(({ id }) => id)).size, 10);
      for (const { id, data } of questions.toReversed()) {
        await session.send(ack("/lab", id, ["re", data[1]]));
        assert.deepEqual((await session.read()).data, ["answer", "re", data[1]]);
      }
    });

    test("a repeated ack and an ack nobody asked for are ignored", async (t) => {
      const session = await joined(t, Transport);
      await session.emit("/lab", "ask", 1);
      const { id } = await session.read();
      await session.send(ack("/lab", id, ["first"]));
      assert.deepEqual((await session.read()).data, ["answer", "first"]);
      await session.send(ack("/lab", id, ["second"]));
      await session.send(ack("/lab", id + 1000, ["never asked"]));
      await session.send(ack("/lab", "99999999999999999999", ["beyond 2^53"]));
      for (const packet of ['43/lab,["no id"]', "43/lab,"]) await session.send(packet);
      await session.emit("/lab", "ask", 2);
      await session.send(`43/lab,${(await session.read()).id}`);
      assert.deepEqual((await session.read()).data, ["answer"], "an ack without data has no arguments");
      assert.deepEqual(await session.ask("/lab", 3, "echo", "alive"), ["alive"]);
    });

    test("a late ack is ignored", async (t) => {
      const session = await joined(t, Transport);
      await session.send(event("/lab", ["collect", session.socketId, 100, "poll"], 9));
      const question = await session.read();
      assert.deepEqual(question.data, ["poll"]);
      const timeout = await session.read();
      assert.deepEqual([timeout.type, timeout.id, timeout.data], [3, 9, ["operation has timed out", []]]);
      await session.send(ack("/lab", question.id, ["late"]));
      assert.deepEqual(await session.ask("/lab", 10, "echo", "alive"), ["alive"]);
    });

    test("a binary event is a header and its attachments, back as they went", async (t) => {
      const session = await openFor(t, Transport);
      await session.join("/");
      const header = '452-["message",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]';
      await session.send(header, bytes(1, 2, 3), bytes(4, 5, 6));
      assert.equal(await session.next(), header.replace("message", "message-back"));
      assert.deepEqual([...(await session.nextBinary())], [1, 2, 3]);
      assert.deepEqual([...(await session.nextBinary())], [4, 5, 6]);
    });

    test("a binary ack, its id behind the namespace", async (t) => {
      const session = await joined(t, Transport);
      await session.send('451-/lab,7["echo",{"_placeholder":true,"num":0}]', bytes(1, 2));
      assert.equal(await session.next(), '461-/lab,7[{"_placeholder":true,"num":0}]');
      assert.deepEqual([...(await session.nextBinary())], [1, 2]);
    });

    test("empty attachments and nested placeholders", async (t) => {
      const session = await joined(t, Transport);
      const args = ["echo", { a: [{ deep: placeholder(0) }] }, placeholder(1)];
      await session.send(binaryEvent("/lab", 2, args), bytes(), bytes(9));
      const header = await session.read();
      assert.equal(header.attachments, 2);
      assert.deepEqual(header.data, args);
      assert.deepEqual([...(await session.nextBinary())], []);
      assert.deepEqual([...(await session.nextBinary())], [9]);
    });

    test("the client's binary answer to a question", async (t) => {
      const session = await joined(t, Transport);
      await session.emit("/lab", "ask", "x");
      const { id } = await session.read();
      await session.send(`461-/lab,${id}[{"_placeholder":true,"num":0},"and text"]`, bytes(5));
      const header = await session.read();
      assert.deepEqual([header.type, header.data], [5, ["answer", placeholder(0), "and text"]]);
      assert.deepEqual([...(await session.nextBinary())], [5]);
    });

    test(`${ATTACHMENTS_MAX} attachments are accepted, one more is refused`, async (t) => {
      const session = await joined(t, Transport);
      const args = ["echo", ...Array.from({ length: ATTACHMENTS_MAX }, (_, i) => placeholder(i))];
      await session.send(binaryEvent("/lab", ATTACHMENTS_MAX, args), ...args.slice(1).map(({ num }) => bytes(num)));
      assert.equal((await session.read()).attachments, ATTACHMENTS_MAX);
      for (let i = 0; i < ATTACHMENTS_MAX; i++) assert.deepEqual([...(await session.nextBinary())], [i]);
      await assertRefused(session, binaryEvent("/lab", ATTACHMENTS_MAX + 1, [...args, placeholder(ATTACHMENTS_MAX)]));
    });

    for (const name of RESERVED) {
      test(`the reserved event name ${name} closes the connection`, async (t) => {
        const session = await joined(t, Transport);
        await assertRefused(session, event("/lab", [name, 1]));
      });
    }

    for (const [what, packet] of Object.entries(MALFORMED)) {
      test(`${what} closes the connection`, async (t) => {
        const session = await joined(t, Transport);
        await assertRefused(session, packet);
      });
    }

    for (const [what, num] of [["beyond the count", 1], ["negative", -1], ["not a number", "0"], ["null", null]]) {
      test(`a placeholder that is ${what} closes the connection`, async (t) => {
        const session = await joined(t, Transport);
        await assertRefused(session, binaryEvent("/lab", 1, ["echo", { _placeholder: true, num }]), bytes(1));
      });
    }

    test("a placeholder that is a fraction is no place either", async (t) => {
      const session = await joined(t, Transport);
      const packets = [binaryEvent("/lab", 1, ["echo", { _placeholder: true, num: 0.5 }]), bytes(1)];
      if (!isReference) return assertRefused(session, ...packets);
      // Node only compares with the bounds, finds nothing at 0.5 and delivers null.
      await session.send(...packets);
      assert.deepEqual((await session.read()).data, ["echo", null]);
    });

    test("an event without any data is ignored", async (t) => {
      const session = await joined(t, Transport);
      for (const packet of ["42/lab,", "42/lab,7"]) await session.send(packet);
      assert.deepEqual(await session.ask("/lab", 0, "echo", "alive"), ["alive"]);
    });

    test("a text message between attachments closes the connection", async (t) => {
      const session = await joined(t, Transport);
      await assertRefused(session, binaryEvent("/lab", 2, ["echo", placeholder(0), placeholder(1)]), bytes(1), event("/lab", ["echo"]));
    });

    test("an attachment nobody announced closes the connection", async (t) => {
      const session = await joined(t, Transport);
      await assertRefused(session, bytes(1, 2, 3));
    });

    test("deep nesting is answered or refused, the server lives", async (t) => {
      const session = await joined(t, Transport);
      // At 10,000 levels the whole Node process dies of its recursion when it answers.
      const levels = isReference ? 500 : 10_000;
      const deep = `42/lab,0["echo",${"[".repeat(levels)}${"]".repeat(levels)}]`;
      await session.send(deep).catch(() => {});
      await session.next("an answer or the end").catch((error) => {
        if (error.message.startsWith("waited")) throw error;
      });
      const next = await joined(t, Transport);
      assert.deepEqual(await next.ask("/lab", 0, "echo", "alive"), ["alive"]);
    });

    test("text of every kind keeps its bytes", async (t) => {
      const session = await joined(t, Transport);
      for (const text of ["😀𝄞", "a\u2028b", "\u0000", "\u001e", "\ud800", '"\\/\b\f\n\r\t']) {
        await session.send(`42/lab,0${JSON.stringify(["echo", text])}`);
        assert.equal(read(await session.next()).data[0], text);
      }
      // U+2028 may stand raw in JSON.
      await session.send('42/lab,0["echo","a\u2028b"]');
      assert.deepEqual((await session.read()).data, ["a\u2028b"]);
      // White space between tokens, escapes instead of characters: the value is the same.
      await session.send('42/lab,0[ "ec\\u0068o" , "\\ud83d\\ude00" ]');
      assert.deepEqual((await session.read()).data, ["😀"]);
    });
  });
}

test("binary WebSocket frames are the attachment alone, without a packet type in front", async (t) => {
  const session = await joined(t, WebSocketSession);
  for (const first of [0x34, 0x62, 0x00]) {
    await session.send(binaryEvent("/lab", 1, ["echo", placeholder(0)]), bytes(first, 1, 2));
    await session.next();
    assert.deepEqual([...(await session.nextBinary())], [first, 1, 2]);
  }
});

test("polled attachments are `b` and padded base64 behind their header", async (t) => {
  const session = await joined(t, Polling);
  await session.send(binaryEvent("/lab", 1, ["echo", placeholder(0)]), bytes(0xfb, 0xff, 0xfe, 0xff));
  assert.equal(await session.next(), '451-/lab,["echo",{"_placeholder":true,"num":0}]');
  assert.equal(await session.next(), "b+//+/w==");
});
