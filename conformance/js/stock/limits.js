// Sizes near and over the advertised limit, as stock clients meet them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, once } from "../peer/stock.js";
import { MAX_PAYLOAD } from "../peer/target.js";

/** What stands around the text in `42/lab,0["echo","..."]` (the Engine.IO `4` is stripped by WebSocket clients too). */
const AROUND = '42/lab,0["echo",""]'.length;

export function limits(client) {
  test("a text just below the limit goes there and back", async (t) => {
    const socket = await client.connect(t);
    const text = "x".repeat(MAX_PAYLOAD - AROUND - 10);
    const [back] = await ask(socket, "echo", text);
    assert.ok(back === text, `${back.length} characters came back for ${text.length}`);
  });

  test("the limit counts bytes, not characters", async (t) => {
    const socket = await client.connect(t);
    const text = "😀".repeat(Math.floor((MAX_PAYLOAD - AROUND) / 4) - 5);
    const [back] = await ask(socket, "echo", text);
    assert.ok(back === text, `${back.length} characters came back for ${text.length}`);
  });

  test("a message over the limit ends the connection and the next one works", async (t) => {
    const socket = await client.connect(t);
    const gone = once(socket, "disconnect");
    socket.emit("echo", "x".repeat(MAX_PAYLOAD + 1));
    assert.match((await gone)[0], /^transport (close|error)$/);
    const again = await client.connect(t);
    assert.deepEqual(await ask(again, "echo", "fine"), ["fine"]);
  });

  test("many large messages in a row all come back", async (t) => {
    const socket = await client.connect(t);
    const sizes = [100_000, 200_000, 300_000, 400_000];
    const answers = await Promise.all(sizes.map((size) => ask(socket, "echo", "y".repeat(size))));
    assert.deepEqual(answers.map(([text]) => text.length), sizes);
  });
}
