// The MessagePack parser, against a server started with --parser msgpack.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import parser from "socket.io-msgpack-parser";
import { within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor } from "../peer/session.js";
import { ask, COMBINATIONS, connected, once, record } from "../peer/stock.js";
import { msgpackUrl as from, REFUSED_MS } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

if (!from) throw new Error("CONFORMANCE_MSGPACK_URL is not set: give the URL of a server started with --parser msgpack");

const options = { from, parser };

/** {type: 0, nsp: "/lab"} */
const CONNECT_LAB = Buffer.from("82a47479706500a36e7370a42f6c6162", "hex");
/** {type: 2, nsp: "/lab", data: ["echo", <02 01>], id: 7} with a bin8 */
const ECHO_BINARY = Buffer.from("84a47479706502a36e7370a42f6c6162a46461746192a46563686fc4020201a2696407", "hex");

for (const client of COMBINATIONS) {
  describe(`MessagePack: ${client.name}`, () => {
    test("connects, and auth and refusals arrive", async (t) => {
      const socket = await client.connect(t, "/lab", { ...options, auth: { user: "ann" } });
      assert.deepEqual((await ask(socket, "who"))[0].auth, { user: "ann" });
      const refused = client.create(t, "/forbidden", options);
      const error = await within(new Promise((resolve) => refused.once("connect_error", resolve)), "connect_error");
      assert.deepEqual([error.message, error.data], ["not authorized", { code: "E_AUTH", retry: false }]);
    });

    test("values of every kind come back", async (t) => {
      const socket = await client.connect(t, "/lab", options);
      for (const value of [0, -1, 127, 128, 65_536, -32_769, 2 ** 40, 1.5, "é😀", "", true, false, null, [], {}, { a: [{ b: 1 }] }]) {
        assert.deepEqual(await ask(socket, "echo", value), [value]);
      }
    });

    test("binary, acks both ways and rooms", async (t) => {
      const socket = await client.connect(t, "/lab", options);
      const [blob] = await ask(socket, "echo", Buffer.from([1, 2, 3]));
      assert.deepEqual([...blob], [1, 2, 3]);
      assert.deepEqual(await ask(socket, "length", Buffer.alloc(70_000)), [70_000]);
      socket.on("question", (x, answer) => answer(x, Buffer.from([9])));
      const answered = once(socket, "answer");
      socket.emit("ask", 5);
      const [number, nine] = await answered;
      assert.deepEqual([number, ...nine], [5, 9]);
      const other = await client.connect(t, "/lab", options);
      await ask(other, "join", `room-${other.id}`);
      const heard = once(other, "said");
      socket.emit("to", `room-${other.id}`, "said", "hello");
      assert.deepEqual(await heard, ["hello"]);
    });

    test("bursts keep their order, several namespaces share the connection", async (t) => {
      const socket = await client.connect(t, "/lab", options);
      const main = socket.io.socket("/", {});
      await connected(main);
      const seen = record(socket, "tick");
      socket.emit("burst", "tick", 200);
      assert.deepEqual(await ask(socket, "echo", 1), [1]);
      assert.deepEqual(seen, Array.from({ length: 200 }, (_, i) => i));
      assert.deepEqual(await ask(main, "message-with-ack", 2), [2]);
    });
  });
}

for (const Transport of [Polling, WebSocketSession]) {
  describe(`MessagePack bytes over ${Transport.transport}`, () => {
    test("a packet is one binary message, binary stays in place", async (t) => {
      const session = await openFor(t, Transport, { from });
      await session.send(CONNECT_LAB);
      const reply = (await session.nextBinary()).toString("latin1");
      assert.match(reply, /\xa3sid\xb4[A-Za-z0-9_-]{20}/);
      await session.send(ECHO_BINARY);
      const answer = (await session.nextBinary()).toString("hex");
      assert.ok(answer.includes("c4020201"), answer);
      assert.ok(answer.includes("a2696407"), answer);
    });

    test("a text packet closes the connection", async (t) => {
      const session = await openFor(t, Transport, { from });
      await session.send("40/lab,").catch(() => {});
      await within(session.ended(), "the end", REFUSED_MS);
    });
  });
}
