// Acknowledgements in both directions.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, once, record, settled } from "../peer/stock.js";
import { eventually, sleep } from "../peer/patience.js";

export function acknowledgements(client) {
  test("the server's ack carries the arguments", async (t) => {
    const socket = await client.connect(t, "/");
    assert.deepEqual(await ask(socket, "message-with-ack", 1, "two", { three: [3] }, null), [1, "two", { three: [3] }, null]);
    assert.deepEqual(await ask(socket, "message-with-ack"), []);
  });

  test("emitWithAck and timeout() resolve with the answer", async (t) => {
    const socket = await client.connect(t);
    assert.equal(await socket.emitWithAck("echo", "promise"), "promise");
    assert.equal(await socket.timeout(2000).emitWithAck("echo", "in time"), "in time");
  });

  test("a question nobody answers times out at the client only", async (t) => {
    const socket = await client.connect(t);
    await assert.rejects(socket.timeout(50).emitWithAck("no such event", 1), /timed out/);
    assert.deepEqual(await ask(socket, "echo", 1), [1]);
  });

  test("fifty outstanding acks each get their own answer", async (t) => {
    const socket = await client.connect(t);
    const numbers = Array.from({ length: 50 }, (_, i) => i);
    assert.deepEqual(await Promise.all(numbers.map((i) => socket.emitWithAck("echo", i))), numbers);
  });

  test("the client answers the server's question", async (t) => {
    const socket = await client.connect(t);
    socket.on("question", (...args) => args.pop()("fine", ...args));
    socket.emit("ask", 1, { two: 2 });
    assert.deepEqual(await once(socket, "answer"), ["fine", 1, { two: 2 }]);
    socket.emit("ask");
    assert.deepEqual(await once(socket, "answer"), ["fine"]);
  });

  test("answers out of order reach the right questions", async (t) => {
    const socket = await client.connect(t);
    const pending = [];
    const answers = record(socket, "answer");
    socket.on("question", (number, answer) => pending.push(() => answer(number)));
    for (let i = 0; i < 5; i++) socket.emit("ask", i);
    await eventually(() => pending.length === 5, "five questions came");
    pending.reverse().forEach((give) => give());
    await eventually(() => answers.length === 5, "five answers were heard");
    assert.deepEqual(answers, [4, 3, 2, 1, 0]);
  });

  test("an ack that comes late and twice is harmless", async (t) => {
    const socket = await client.connect(t);
    const answers = record(socket, "answer");
    socket.on("question", async (number, answer) => {
      await sleep(400);
      answer(number);
      answer(number);
    });
    socket.emit("ask", 7);
    await eventually(() => answers.length > 0, "the late answer was heard");
    await settled(socket);
    assert.deepEqual(answers, [7]);
  });

  test("retried emits arrive once each and in order", async (t) => {
    const socket = await client.connect(t, "/lab", { retries: 3, ackTimeout: 3000 });
    const answers = await Promise.all([1, 2, 3].map((i) => new Promise((resolve, reject) => {
      socket.emit("echo", i, (error, value) => (error ? reject(error) : resolve(value)));
    })));
    assert.deepEqual(answers, [1, 2, 3]);
  });
}
