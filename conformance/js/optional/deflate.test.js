// permessage-deflate, against a server started with --deflate: every message of the other side is
// compressed and inflated by zlib, whatever the server uses.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, test } from "node:test";
import WebSocket from "ws";
import { within } from "../peer/patience.js";
import { COMBINATIONS, ask, once, upgraded } from "../peer/stock.js";
import { deflateUrl as from } from "../peer/target.js";

if (!from) throw new Error("CONFORMANCE_DEFLATE_URL is not set: give the URL of a server started with --deflate");

/** What a client may ask for, and what the answer must say. */
const OFFERS = {
  "windows kept on both sides": [{}, {}],
  "no window on either side": [
    { serverNoContextTakeover: true, clientNoContextTakeover: true },
    { server_no_context_takeover: true, client_no_context_takeover: true },
  ],
  "a small window for the server": [{ serverMaxWindowBits: 9, serverNoContextTakeover: true }, { server_max_window_bits: 9 }],
  "a small window for the server, kept": [{ serverMaxWindowBits: 10 }, { server_max_window_bits: 10 }],
  "a small window for the client": [{ clientMaxWindowBits: 9 }, {}],
};

async function open(t, perMessageDeflate) {
  const socket = new WebSocket(`${from.replace(/^http/, "ws")}/echo`, { perMessageDeflate: { threshold: 0, ...perMessageDeflate } });
  t.after(() => socket.terminate());
  await within(new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject)), "the WebSocket");
  return socket;
}

const received = (socket) => within(new Promise((resolve) => socket.once("message", (data, binary) => resolve({ data, binary }))), "an echo");

/** Chat, so to speak: repetitive, with something new in each. */
const chat = (n, bytes) => JSON.stringify({ userId: `user-${n % 7}`, content: "the quick brown fox ".repeat(bytes / 20 + 1).slice(0, bytes), id: n });

for (const [name, [asked, expected]] of Object.entries(OFFERS)) {
  describe(`permessage-deflate, ${name}`, () => {
    test("is agreed on in these words", async (t) => {
      const socket = await open(t, asked);
      assert.equal(socket.extensions, "permessage-deflate");
      const agreed = socket._extensions["permessage-deflate"].params;
      for (const [parameter, value] of Object.entries(expected)) assert.equal(agreed[parameter], value, parameter);
    });

    test("text and binary of all sizes come back", async (t) => {
      const socket = await open(t, asked);
      for (const bytes of [0, 1, 10, 125, 126, 1_000, 5_000, 65_535, 65_536, 300_000]) {
        for (const message of [chat(bytes, bytes), randomBytes(bytes)]) {
          socket.send(message);
          const { data, binary } = await received(socket);
          assert.equal(binary, typeof message !== "string");
          assert.ok(data.equals(Buffer.from(message)), `${bytes} bytes`);
        }
      }
    });

    test("a thousand messages in a row come back in order", async (t) => {
      const socket = await open(t, asked);
      const messages = Array.from({ length: 1_000 }, (_, n) => (n % 10 === 9 ? randomBytes(300) : chat(n, n * 3)));
      const echoes = [];
      const all = new Promise((resolve) => socket.on("message", (data) => echoes.push(data) === messages.length && resolve()));
      for (const message of messages) socket.send(message);
      await within(all, "all echoes", 20_000);
      for (const [n, echo] of echoes.entries()) assert.ok(echo.equals(Buffer.from(messages[n])), `message ${n}`);
    });

    test("a message in fragments with pings between comes back", async (t) => {
      const socket = await open(t, asked);
      const pieces = [chat(1, 4_000), chat(2, 1), chat(3, 2_000)];
      for (const [n, piece] of pieces.entries()) {
        socket.send(piece, { fin: n === pieces.length - 1 });
        socket.ping();
      }
      assert.equal((await received(socket)).data.toString(), pieces.join(""));
    });
  });
}

for (const { name, transports, upgrades, connect } of COMBINATIONS.filter(({ transports }) => transports.includes("websocket"))) {
  describe(`compressed, ${name}`, () => {
    const connected = async (t) => {
      const socket = await connect(t, "/lab", { from });
      if (upgrades) await upgraded(socket);
      assert.equal(socket.io.engine.transport.ws.extensions, "permessage-deflate", transports.join());
      return socket;
    };

    test("long events, answers and attachments come through both ways", async (t) => {
      const socket = await connected(t);
      for (const value of [chat(1, 20_000), { list: Array.from({ length: 500 }, (_, n) => ({ n })) }, randomBytes(30_000), Buffer.alloc(30_000)]) {
        const answer = once(socket, "echo");
        socket.emit("echo", value);
        assert.deepEqual((await answer)[0], value);
        assert.deepEqual((await ask(socket, "echo", value))[0], value);
      }
    });
  });
}
