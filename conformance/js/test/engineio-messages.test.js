// Engine.IO: messages, payloads and their limits, on the bare echo endpoint.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { describe, test } from "node:test";
import { gunzipSync, inflateSync } from "node:zlib";
import { begin, request } from "../peer/http.js";
import { SEPARATOR } from "../peer/packet.js";
import { eventually, sleep, within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor, PONG } from "../peer/session.js";
import { MAX_PAYLOAD } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

const path = "/engine.io/";
const GONE = { status: 400, code: 1, message: "Session ID unknown" };
const TEXTS = ["hello", "", "é ß 汉字 😀 𝄞", "a\u2028b\u2029c", "nul \u0000 and \u001f", '{"json":true}', "2probe", "bAQID"];

for (const Transport of [Polling, WebSocketSession]) {
  describe(`messages over ${Transport.transport}`, () => {
    test("texts come back as they went", async (t) => {
      const session = await openFor(t, Transport, { path });
      for (const text of TEXTS) {
        await session.send(`4${text}`);
        assert.equal(await session.next(), `4${text}`);
      }
    });

    test("bytes come back as they went, empty and large ones too", async (t) => {
      const session = await openFor(t, Transport, { path });
      for (const size of [0, 1, 2, 3, 1024, 65_536, 300_000]) {
        const bytes = randomBytes(size);
        await session.send(bytes);
        assert.ok((await session.nextBinary()).equals(bytes), `${size} bytes`);
      }
    });

    test("a message of the full maxPayload is accepted", async (t) => {
      const session = await openFor(t, Transport, { path });
      const text = `4${"x".repeat(MAX_PAYLOAD - 1)}`;
      await session.send(text);
      assert.ok((await session.next()) === text);
    });

    for (const garbage of ["abc", "7", "x", " 4x"]) {
      test(`an unknown packet type ends the session: ${garbage}`, async (t) => {
        const session = await openFor(t, Transport, { path });
        await session.send(garbage).catch(() => {});
        await within(session.ended(), "the end");
      });
    }
  });
}

describe("payloads", () => {
  test("several packets travel in one POST and one poll, in order", async (t) => {
    const session = await openFor(t, Polling, { path });
    await session.send("4one", "4two", Buffer.from([1, 2, 3]), "4three");
    const got = [];
    while (got.length < 4) got.push(await session.next());
    assert.deepEqual(got, ["4one", "4two", "bAQID", "4three"]);
  });

  test("binary is `b` and padded standard base64, not `b4`", async (t) => {
    const session = await openFor(t, Polling, { path });
    await session.post(["b+/8=", "b////", "bAA=="].join(SEPARATOR));
    const got = [await session.next(), await session.next(), await session.next()];
    assert.deepEqual(got, ["b+/8=", "b////", "bAA=="]);
  });

  test("base64 may hold line breaks, as the Java client sends it", async (t) => {
    const session = await openFor(t, Polling, { path });
    const bytes = randomBytes(200);
    const lines = bytes.toString("base64").match(/.{1,76}/g);
    for (const end of ["\n", "\r\n"]) {
      await session.post(`b${lines.join(end)}${end}`);
      assert.ok((await session.nextBinary()).equals(bytes));
    }
    await session.post(`bcw==\n${SEPARATOR}4behind it`);
    assert.equal(await session.next(), "bcw==");
    assert.equal(await session.next(), "4behind it");
  });

  test("a POST is answered `ok` as text/html", async (t) => {
    const session = await openFor(t, Polling, { path });
    const answer = await session.post("4x");
    assert.equal(answer.status, 200);
    assert.equal(answer.body, "ok");
    assert.match(answer.headers["content-type"], /^text\/html/);
  });

  test("a poll is answered as uncached UTF-8 text", async (t) => {
    const session = await openFor(t, Polling, { path });
    await session.send("4é😀");
    const answer = await session.get();
    assert.match(answer.headers["content-type"], /^text\/plain; ?charset=utf-8$/i);
    assert.equal(answer.headers["cache-control"], "no-store");
    assert.equal(answer.body, "4é😀");
  });

  test("the content type of a POST does not matter, octet-stream excepted", async (t) => {
    const session = await openFor(t, Polling, { path });
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json", ""]) {
      const answer = await session.post(`4${type}`, type ? { "content-type": type } : {});
      assert.equal(answer.status, 200, type);
      assert.equal(await session.next(), `4${type}`);
    }
  });

  test("an octet-stream POST is refused and ends the session", async (t) => {
    const session = await openFor(t, Polling, { path });
    const answer = await session.post("4x", { "content-type": "application/octet-stream" });
    assert.equal(answer.status, 400);
    assert.deepEqual(await session.ended(), GONE);
  });

  for (const [what, body] of [["an empty POST", ""], ["a trailing separator", `4x${SEPARATOR}`], ["a doubled separator", `4x${SEPARATOR}${SEPARATOR}4y`]]) {
    test(`${what} ends the session`, async (t) => {
      const session = await openFor(t, Polling, { path });
      const answer = await session.post(body).catch(() => ({ status: "cut" }));
      assert.ok([200, 400, "cut"].includes(answer.status));
      await within(session.ended(), "the end");
    });
  }

  test("a chunked POST is read like any other", async (t) => {
    const session = await openFor(t, Polling, { path });
    const { status, body } = await chunkedPost(session, ["4he", "llo", `${SEPARATOR}4wor`, "ld"]);
    assert.deepEqual({ status, body }, { status: 200, body: "ok" });
    assert.equal(await session.next(), "4hello");
    assert.equal(await session.next(), "4world");
  });

  test("a large poll answer is compressed only for those who accept it", async (t) => {
    const session = await openFor(t, Polling, { path });
    const text = `4${"compressible ".repeat(1000)}`;
    await session.send(text);
    const plain = await session.get();
    assert.equal(plain.headers["content-encoding"], undefined);
    // A ping may be in the same answer.
    const said = (body) => body.split("\x1e").filter((packet) => packet !== "2").join("\x1e");
    assert.equal(said(plain.body), text);
    for (const [encoding, decode] of [["gzip", gunzipSync], ["deflate", inflateSync]]) {
      await session.send(text);
      const answer = await session.get({ "accept-encoding": encoding });
      const used = answer.headers["content-encoding"];
      assert.ok(used === undefined || used === encoding, `answered with ${used}`);
      assert.equal(said(used ? decode(answer.bytes).toString() : answer.body), text);
    }
  });
});

describe("over the limit", () => {
  test("a POST over maxPayload is 413 with an empty body and the session lives on", async (t) => {
    const session = await openFor(t, Polling, { path });
    const answer = await session.post(`4${"x".repeat(MAX_PAYLOAD)}`);
    assert.equal(answer.status, 413);
    assert.equal(answer.body, "");
    await session.send("4alive");
    assert.equal(await session.next(), "4alive");
  });

  test("a chunked POST that grows over maxPayload is refused as well", async (t) => {
    const session = await openFor(t, Polling, { path });
    const pieces = Array.from({ length: 20 }, () => "4".repeat(MAX_PAYLOAD / 10));
    const outcome = await chunkedPost(session, pieces).catch((error) => ({ status: error.code }));
    assert.ok([413, "ECONNRESET", "EPIPE"].includes(outcome.status), `answered ${outcome.status}`);
  });

  test("a POST just at maxPayload passes, in bytes, not characters", async (t) => {
    const session = await openFor(t, Polling, { path });
    const text = `4${"é".repeat((MAX_PAYLOAD - 2) / 2)}`;
    assert.equal((await session.post(`${text}x`)).status, 200);
    assert.ok((await session.next()) === `${text}x`);
    assert.equal((await session.post(`${text}xy`)).status, 413);
  });

  for (const [what, message] of [["text", `4${"x".repeat(MAX_PAYLOAD)}`], ["binary", Buffer.alloc(MAX_PAYLOAD + 1)]]) {
    test(`a WebSocket ${what} message over maxPayload closes with 1009`, async (t) => {
      const session = await openFor(t, WebSocketSession, { path });
      await session.send(message);
      assert.equal((await within(session.closed, "the close")).code, 1009);
    });
  }

  test("a WebSocket message of fragments that add up over maxPayload closes with 1009", async (t) => {
    const session = await openFor(t, WebSocketSession, { path });
    session.socket.on("error", () => {});
    for (let i = 0; i < 4; i++) session.socket.send("4".repeat(300_000), { fin: i === 3, binary: false }, () => {});
    assert.equal((await within(session.closed, "the close")).code, 1009);
  });
});

describe("requests in each other's way", () => {
  test("a second poll ends the session: the first gets `1`, the second 400", async (t) => {
    const session = await openFor(t, Polling, { path });
    const first = session.startGet();
    await waiting(session, first.outgoing);
    const second = await request(session.target());
    assert.equal(second.status, 400);
    const { status, body } = await within(first.answer, "the first poll");
    assert.deepEqual({ status, body }, { status: 200, body: "1" });
    assert.deepEqual(await session.ended(), GONE);
  });

  test("a second POST while one is being received ends the session", async (t) => {
    const session = await openFor(t, Polling, { path });
    const half = await halfPost(session);
    t.after(() => half.destroy());
    const second = await request(session.target(), { method: "POST", body: "4y" });
    assert.equal(second.status, 400);
    assert.deepEqual(await session.ended(), GONE);
  });

  test("a poll that the client cuts ends the session", async (t) => {
    const session = await openFor(t, Polling, { path });
    const { outgoing } = session.startGet();
    await waiting(session, outgoing);
    outgoing.destroy();
    // Not by polling: a second poll would end the session by itself.
    await eventually(async () => (await session.post(PONG)).status === 400, "the session is gone");
    assert.deepEqual(await session.ended(), GONE);
  });

  test("a POST that the client cuts ends the session", async (t) => {
    const session = await openFor(t, Polling, { path });
    const half = await halfPost(session);
    half.destroy();
    // A pong would be a second POST, which ends the session by itself; without one it lives for more than five seconds.
    session.answersPings = false;
    assert.deepEqual(await within(session.ended(), "the end", 4000), GONE);
  });
});

describe("base64 over WebSocket", () => {
  test("with b64=1 the server sends binary as a `b` text frame", async (t) => {
    const session = await openFor(t, WebSocketSession, { path, parameters: { b64: "1" } });
    await session.send(Buffer.from([1, 2, 3]));
    assert.equal(await session.next(), "bAQID");
  });

  test("a `b` text frame is a binary message from anyone", async (t) => {
    const session = await openFor(t, WebSocketSession, { path });
    await session.send("bAQID");
    assert.deepEqual([...(await session.nextBinary())], [1, 2, 3]);
  });
});

const TEXT = { "content-type": "text/plain" };

/** Sends the pieces as separate chunks of one POST. */
async function chunkedPost(session, pieces) {
  const { outgoing, answer } = begin(session.target(), { method: "POST", headers: TEXT });
  for (const piece of pieces) {
    outgoing.write(piece);
    await sleep(5);
  }
  outgoing.end();
  return within(answer, "the answer to the chunked POST");
}

/** A POST that announces a hundred bytes and sends two, when the server has said that it reads them. */
async function halfPost(session) {
  const headers = { ...TEXT, "content-length": 100, expect: "100-continue" };
  const { outgoing } = begin(session.target(), { method: "POST", headers });
  outgoing.flushHeaders();
  await within(once(outgoing, "continue"), "the word to go on");
  await within(new Promise((sent) => outgoing.write("4x", sent)), "two bytes to leave");
  return outgoing;
}

/**
 * Until the server has a poll: it left on the connection that opened the session, and a pong that nobody asked for, sent
 * later, is answered.
 */
async function waiting(session, poll) {
  if (!poll.writableFinished) await within(once(poll, "finish"), "the poll to leave");
  assert.equal((await session.post(PONG)).status, 200);
}
