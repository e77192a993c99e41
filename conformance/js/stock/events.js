// Events: what goes out comes back unchanged.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, once, record, settled } from "../peer/stock.js";
import { eventually, sleep } from "../peer/patience.js";
import { PING_INTERVAL } from "../peer/target.js";

const VALUES = [1, -1, 0, 1.5, 1e21, 1e-7, "2", "", true, false, null, [], {}, { 3: [true, { deep: [[[null]]] }] }, [1, [2, [3]]]];

/** Texts that break naive framing, escaping or byte counting. */
const TEXTS = {
  "latin, greek, chinese": "é ß λόγος 汉字",
  "beyond the basic plane": "😀 🏴󠁧󠁢󠁳󠁣󠁴󠁿 𝄞 👩‍👩‍👧",
  "line separators": "a\u2028b\u2029c",
  "NUL and controls": "a\u0000b\u0001c\u001fd\u007f",
  "the payload separator": "a\u001eb\u001e",
  "quotes and escapes": `"\\"\\\\ \\u0041 /\b\f\n\r\t`,
  "a lone surrogate": "a\ud800b",
  "packet look-alikes": '42["x"],2probe,b4AAA=',
};

export function events(client) {
  test("arguments of every JSON kind come back equal", async (t) => {
    const socket = await client.connect(t, "/");
    for (const args of [VALUES, ...VALUES.map((value) => [value])]) {
      const back = once(socket, "message-back");
      socket.emit("message", ...args);
      assert.deepEqual(await back, args);
    }
  });

  test("an event without arguments comes back without", async (t) => {
    const socket = await client.connect(t);
    socket.emit("echo");
    assert.deepEqual(await once(socket, "echo"), []);
  });

  for (const [what, text] of Object.entries(TEXTS)) {
    test(`text survives: ${what}`, async (t) => {
      const socket = await client.connect(t);
      assert.deepEqual(await ask(socket, "echo", text, { [text]: text }), [text, { [text]: text }]);
      socket.emit("echo", text);
      assert.deepEqual(await once(socket, "echo"), [text]);
    });
  }

  test("event names may hold any text", async (t) => {
    const socket = await client.connect(t);
    for (const name of ["with space", "ünï 😀", "a,b", '"quoted"', "42", "\u2028"]) {
      const got = once(socket, name);
      socket.emit("in", socket.id, name, "payload");
      assert.deepEqual(await got, ["payload"], name);
    }
  });

  test("unknown events are ignored", async (t) => {
    const socket = await client.connect(t);
    socket.emit("no such event", 1);
    assert.deepEqual(await ask(socket, "echo", "still here"), ["still here"]);
  });

  test("volatile events from the client arrive when the connection is idle", async (t) => {
    const socket = await client.connect(t);
    await sleep(50);
    // A volatile packet may be dropped, so it is sent again until one comes through.
    const got = once(socket, "echo");
    const timer = setInterval(() => socket.volatile.emit("echo", "volatile"), 25);
    t.after(() => clearInterval(timer));
    assert.deepEqual(await got, ["volatile"]);
  });

  test("volatile events from the server come in order, the first one at least", async (t) => {
    const socket = await client.connect(t);
    const seen = record(socket, "tick");
    for (let round = 0; seen.length === 0 && round < 20; round++) {
      socket.emit("volatile", "tick", 10);
      await settled(socket);
    }
    assert.ok(seen.length > 0, "no volatile event came in 20 rounds");
    const drops = seen.filter((value, i) => i > 0 && value !== 0 && value <= seen[i - 1]);
    assert.deepEqual(drops, [], `out of order: ${seen}`);
  });

  test("an idle connection stays up over several heartbeats", async (t) => {
    const socket = await client.connect(t);
    let pings = 0;
    let reason;
    socket.io.on("ping", () => pings++);
    socket.on("disconnect", (why) => (reason = why));
    const began = performance.now();
    await sleep(5 * PING_INTERVAL);
    // On a busy machine it takes longer, and each ping comes behind the pong before it.
    await eventually(() => reason !== undefined || pings >= 3, "three pings came");
    const most = Math.ceil((performance.now() - began) / PING_INTERVAL);
    assert.equal(reason, undefined);
    assert.ok(pings <= most, `${pings} pings in ${most} intervals`);
    assert.deepEqual(await ask(socket, "echo", "awake"), ["awake"]);
  });
}
