// Binary arguments in both directions.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { ask, once } from "../peer/stock.js";

const same = (received, sent) => assert.ok(Buffer.compare(Buffer.from(received), sent) === 0, `${received.length} bytes came back for ${sent.length}`);

export function binary(client) {
  // Engine.IO has no packet of WebTransport without a byte: clients and servers take it for a broken stream.
  const least = client.usesWebTransport ? 1 : 0;

  test("buffers, typed arrays and array buffers arrive as bytes", async (t) => {
    const socket = await client.connect(t);
    const kinds = [Buffer.from([1, 2, 3]), new Uint8Array([1, 2, 3]).buffer];
    // Version 2 takes a typed array for a plain object.
    if (!client.version.startsWith("2.")) kinds.push(new Uint8Array([1, 2, 3]));
    for (const value of kinds) {
      const [back] = await ask(socket, "echo", value);
      same(back, Buffer.from([1, 2, 3]));
    }
    assert.deepEqual(await ask(socket, "length", Buffer.alloc(17)), [17]);
    assert.deepEqual(await ask(socket, "length", "not binary"), [-1]);
  });

  for (const size of [0, 1, 125, 126, 4095, 65_535, 65_536, 150_000, 700_000]) {
    test(`${size} bytes go there and back`, { skip: size < least }, async (t) => {
      const socket = await client.connect(t);
      const sent = randomBytes(size);
      const got = once(socket, "echo");
      socket.emit("echo", sent);
      same((await got)[0], sent);
    });
  }

  test("ten attachments nested at any depth stay at their places", async (t) => {
    const socket = await client.connect(t);
    const blobs = Array.from({ length: 10 }, (_, i) => Buffer.alloc(i + least, i));
    const [first, second, ...rest] = blobs;
    const args = [first, { deep: [{ second }, "text"] }, ["x", ...rest]];
    const [one, two, three] = await ask(socket, "echo", ...args);
    same(one, first);
    same(two.deep[0].second, second);
    assert.equal(two.deep[1], "text");
    assert.equal(three[0], "x");
    rest.forEach((blob, i) => same(three[i + 1], blob));
  });

  test("binary in acks both ways", async (t) => {
    const socket = await client.connect(t);
    socket.on("question", (blob, answer) => answer(Buffer.concat([blob, blob]), { copy: blob }));
    socket.emit("ask", Buffer.from("abc"));
    const [twice, { copy }] = await once(socket, "answer");
    same(twice, Buffer.from("abcabc"));
    same(copy, Buffer.from("abc"));
  });

  test("text and binary events keep their order", async (t) => {
    const socket = await client.connect(t);
    const seen = [];
    const all = new Promise((resolve) => {
      socket.on("echo", (value) => {
        seen.push(typeof value === "number" ? value : value[0]);
        if (seen.length === 100) resolve();
      });
    });
    for (let i = 0; i < 100; i++) socket.emit("echo", i % 3 === 0 ? Buffer.from([i]) : i);
    await all;
    assert.deepEqual(seen, Array.from({ length: 100 }, (_, i) => i));
  });

  test("the main namespace mirrors binary too", async (t) => {
    const socket = await client.connect(t, "/");
    socket.emit("message", Buffer.from([1, 2, 3]), "text");
    const [blob, text] = await once(socket, "message-back");
    same(blob, Buffer.from([1, 2, 3]));
    assert.equal(text, "text");
    const [again] = await ask(socket, "message-with-ack", Buffer.from([4]));
    same(again, Buffer.from([4]));
  });
}
