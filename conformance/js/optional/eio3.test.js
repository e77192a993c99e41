// Clients of Socket.IO 2, which speak Engine.IO 3, against a server started with --allow-eio3: the stock client, and requests as
// other clients of that protocol make them.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import WebSocket from "ws";
import { eventually, Late, sleep, unhurried, within } from "../peer/patience.js";
import { ask, COMBINATIONS, connected, EIO3_COMBINATIONS, once, record, upgraded } from "../peer/stock.js";
import { EIO3_PING_TIMEOUT, eio3Url as from, isReference, PING_INTERVAL, strictUrl } from "../peer/target.js";
import { binary } from "../stock/binary.js";
import { order } from "../stock/order.js";

if (!from) throw new Error(`CONFORMANCE_EIO3_URL is not set: give the URL of a server started with --ping-timeout ${EIO3_PING_TIMEOUT} --allow-eio3`);

const TEXTS = ["", "é ß λόγος 汉字", "😀 𝄞 👩‍👩‍👧", "a\u2028b\u2029c", "a\u0000b\u001ec", '"\\"\\\\ \\n\n\r\t', "12:4x2:4"];
const refusal = (socket) => within(new Promise((resolve) => socket.once("error", resolve)), "a refusal");

/** The stock client against this server. */
function here(client) {
  const at = (options) => ({ from, ...options });
  return { ...client, create: (t, namespace, options) => client.create(t, namespace, at(options)), connect: (t, namespace, options) => client.connect(t, namespace, at(options)) };
}

for (const client of EIO3_COMBINATIONS.map(here)) {
  describe(client.name, () => {
    describe("binary", () => binary(client));
    describe("order", () => order(client));

    test("is in / without asking for it", async (t) => {
      const socket = await client.connect(t, "/");
      for (const text of TEXTS) assert.deepEqual(await ask(socket, "message-with-ack", text, { [text]: text }), [text, { [text]: text }]);
      socket.emit("message", 1, [null], "two");
      assert.deepEqual(await once(socket, "message-back"), [1, [null], "two"]);
    });

    test("hears no payload in its CONNECT, and the handler an empty one", async (t) => {
      const socket = client.create(t, "/");
      assert.deepEqual(await once(socket, "auth"), [{}]);
      assert.equal(socket.id, socket.io.engine.id);
    });

    test("speaks the transports it was told to", async (t) => {
      const socket = await client.connect(t);
      if (client.upgrades) await upgraded(socket);
      const [who] = await ask(socket, "who");
      assert.equal(who.transport, client.transports.at(-1));
      assert.equal(who.recovered, false);
    });

    test("the query of a namespace is the payload of its CONNECT", async (t) => {
      const socket = await client.connect(t, "/lab?user=ann%20%26%20b%C3%A9a&x=%F0%9F%98%80%2C1");
      assert.deepEqual((await ask(socket, "who"))[0].auth, { user: "ann & béa", x: "😀,1" });
      const plain = await client.connect(t, "/lab");
      assert.deepEqual((await ask(plain, "who"))[0].auth, {});
    });

    test("a refusal is its message, or the data in its place", async (t) => {
      for (const [namespace, reason] of [
        ["/lab?reject=1", "rejected by token"],
        ["/forbidden", { code: "E_AUTH", retry: false }],
      ]) {
        const socket = client.create(t, namespace);
        assert.deepEqual(await refusal(socket), reason);
        assert.equal(socket.connected, false);
      }
    });

    test("several namespaces share a connection, and one can be left", async (t) => {
      const root = await client.connect(t, "/");
      const lab = root.io.socket("/lab");
      const custom = root.io.socket("/custom");
      await Promise.all([connected(lab), connected(custom)]);
      custom.disconnect();
      assert.deepEqual(await ask(lab, "echo", "lab"), ["lab"]);
      assert.deepEqual(await ask(root, "message-with-ack", "root"), ["root"]);
      custom.open();
      await connected(custom);
    });

    test("acks go both ways, with binary in them", async (t) => {
      const socket = await client.connect(t);
      const numbers = Array.from({ length: 50 }, (_, i) => i);
      assert.deepEqual(await Promise.all(numbers.map((i) => ask(socket, "echo", i))), numbers.map((i) => [i]));
      socket.on("question", (...args) => args.pop()("fine", ...args));
      socket.emit("ask", 1, Buffer.from([2]), "😀");
      const [fine, one, blob, face] = await once(socket, "answer");
      assert.deepEqual([fine, one, [...blob], face], ["fine", 1, [2], "😀"]);
    });

    for (const newer of COMBINATIONS.filter(({ version }) => version === "4.8.4").map(here)) {
      test(`shares rooms with ${newer.name}`, async (t) => {
        const [old, young] = await Promise.all([client.connect(t), newer.connect(t)]);
        const room = `shared-${young.id}`;
        await Promise.all([old, young].map((socket) => ask(socket, "join", room)));
        const event = `said-${young.id}`;
        const heard = [old, young].map((socket) => record(socket, event));
        const said = [];
        for (let i = 0; i < 100; i++) {
          const value = i % 5 === 0 ? { at: i, face: "😀" } : i % 7 === 0 ? Buffer.from([i, 255]) : i;
          said.push(Buffer.isBuffer(value) ? [i, 255] : value);
          young.emit("in", room, event, value);
        }
        for (const list of heard) await eventually(() => list.length === 100, "a hundred events came");
        const plain = (list) => list.splice(0).map((value) => (ArrayBuffer.isView(value) ? [...value] : value));
        for (const list of heard) assert.deepEqual(plain(list), said);
        old.emit("to", room, event, Buffer.from([1, 2, 3]), "text");
        old.emit("in", room, event, "both");
        for (const list of heard) await eventually(() => list.at(-1) === "both", "the last event came");
        assert.deepEqual(plain(heard[0]), ["both"]);
        assert.deepEqual(plain(heard[1]), [[1, 2, 3], "both"]);
      });
    }

    test("is told when the server ends its membership, and its connection", async (t) => {
      for (const event of ["kick", "kick-close"]) {
        const socket = await client.connect(t);
        const gone = once(socket, "disconnect");
        socket.emit(event);
        assert.deepEqual(await gone, ["io server disconnect"]);
      }
    });

    test("comes back by itself after a cut, as somebody new", async (t) => {
      const socket = await client.connect(t, "/lab?user=ann", { reconnection: true, reconnectionDelay: 10 });
      const { id } = socket.io.engine;
      const again = once(socket, "reconnect");
      socket.emit("drop");
      await again;
      await eventually(() => socket.connected, "the namespace was joined again");
      assert.notEqual(socket.io.engine.id, id);
      const [who] = await ask(socket, "who");
      assert.deepEqual([who.auth, who.recovered], [{ user: "ann" }, false]);
    });

    test("stays up over several heartbeats, which it begins", async (t) => {
      const socket = await client.connect(t);
      const pongs = record(socket.io, "pong");
      // Longer than a silent one would.
      await sleep(PING_INTERVAL + EIO3_PING_TIMEOUT);
      await eventually(() => pongs.length >= 3, "three pongs came");
      assert.deepEqual(await ask(socket, "echo", "awake"), ["awake"]);
    });
  });
}

describe("what other clients of protocol 3 send", () => {
  const base = `${from}/socket.io/?EIO=3&transport=polling`;
  const bytes = async (response) => Buffer.from(await response.arrayBuffer());
  const post = (target, body, type = "text/plain;charset=UTF-8") => fetch(target, { method: "POST", body, headers: { "content-type": type } });

  const counted = (packet) => `${packet.length}:${packet}`;

  /** Address of a session's requests, and what the answer to its first one was. */
  async function open(more = "") {
    const response = await fetch(base + more);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const [, sid] = text.match(/sid\\?":\\?"([^"\\]+)/) ?? assert.fail(`no sid in ${text}`);
    return { target: `${base}${more}&sid=${sid}`, text, sid, response };
  }

  /** Polls until the answers, joined, hold this. */
  async function poll(target, holds) {
    let seen = Buffer.alloc(0);
    const end = performance.now() + 5000;
    while (!seen.includes(holds)) {
      assert.ok(performance.now() < end, `waited for ${holds}, saw ${seen.subarray(0, 300)}`);
      const response = await fetch(target);
      assert.equal(response.status, 200);
      seen = Buffer.concat([seen, await bytes(response)]);
      if (!seen.includes(holds)) assert.equal(await (await post(target, target.includes("&j=") ? "d=1:2" : "1:2")).text(), "ok");
    }
    return seen;
  }

  test("the open packet has a length and the settings", async () => {
    const { text } = await open("&b64=1");
    const [, length, json] = text.match(/^(\d+):0(\{[^}]*\})/) ?? assert.fail(text);
    assert.equal(Number(length), json.length + 1);
    const { pingInterval, pingTimeout, upgrades } = JSON.parse(json);
    assert.deepEqual([pingInterval, pingTimeout, upgrades], [PING_INTERVAL, EIO3_PING_TIMEOUT, ["websocket"]]);
  });

  test("a client that takes binary gets a binary payload, and sends one", async () => {
    const { target } = await open();
    await poll(target, "2:40");
    const packet = Buffer.from('451-["message",{"_placeholder":true,"num":0},"é"]');
    const head = (kind, length) => Buffer.from([kind, ...[...String(length)].map(Number), 255]);
    const body = Buffer.concat([head(0, packet.length), packet, head(1, 4), Buffer.from([4, 7, 8, 9])]);
    assert.equal(await (await post(target, body, "application/octet-stream")).text(), "ok");
    const response = await fetch(target);
    assert.equal(response.headers.get("content-type"), "application/octet-stream");
    const text = Buffer.from('451-["message-back",{"_placeholder":true,"num":0},"é"]');
    assert.deepEqual(await bytes(response), Buffer.concat([head(0, text.length), text, head(1, 4), Buffer.from([4, 7, 8, 9])]));
  });

  test("lengths are those of JavaScript's strings", async () => {
    const { target } = await open("&b64=1");
    await poll(target, "2:40");
    assert.equal(await (await post(target, `${counted('42["message","😀é"]')}1:2`)).text(), "ok");
    assert.ok((await poll(target, "message-back")).includes(counted('42["message-back","😀é"]')));
  });

  test("scripts bring packets to pages that cannot ask otherwise, and forms take theirs", async () => {
    const { target, text, response } = await open("&b64=1&j=3");
    assert.match(text, /^___eio\[3\]\("\d+:0\{\\"sid\\":.*"\);$/);
    if (!isReference) assert.match(response.headers.get("content-type"), /^text\/javascript/);
    await poll(target, '___eio[3]("2:40');
    // The client's own way with line ends: `\n` in a text is `\\n` in the form.
    const body = new URLSearchParams({ d: counted('42["message","a\\nb","\u2028"]').replaceAll("\\n", "\\\\n") }).toString();
    assert.equal(await (await post(target, body, "application/x-www-form-urlencoded")).text(), "ok");
    const script = JSON.stringify(counted('42["message-back","a\\nb","\u2028"]')).replace("\u2028", "\\u2028");
    assert.ok((await poll(target, "message-back")).includes(script.slice(1, -1)));
  });

  test("what is no payload ends the session", async () => {
    // Node's server says ok to some, and ends the session all the same.
    if (isReference) return;
    for (const body of ["4a", "-1:4", "99999999999:4", "3:4a", "1:9", "1:21", ""]) {
      const { target } = await open("&b64=1");
      assert.equal((await post(target, body)).status, 400, body);
      assert.equal((await post(target, "1:2")).status, 400, body);
    }
  });

  test("a session keeps to its protocol", async () => {
    const { target } = await open();
    if (isReference) return;
    const answer = await fetch(target.replace("EIO=3", "EIO=4"));
    assert.deepEqual([answer.status, await answer.json()], [400, { code: 3, message: "Bad request" }]);
    const young = await (await fetch(base.replace("EIO=3", "EIO=4"))).text();
    assert.match(young, /^0\{/);
  });

  /** A WebSocket, its messages and when it ended. */
  async function websocket(t, more = "") {
    const begun = performance.now();
    const socket = new WebSocket(`${base.replace("http", "ws").replace("polling", "websocket")}${more}`);
    t.after(() => socket.terminate());
    const seen = [];
    socket.on("message", (data, binary) => seen.push(binary ? [...data] : data.toString()));
    const ended = new Promise((resolve) => socket.once("close", () => resolve(performance.now())));
    await within(new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject)), "the WebSocket");
    await eventually(() => seen.includes("40"), "the packet that says: you are in /");
    return { socket, seen, ended, begun, since: performance.now() };
  }

  test("binary messages begin with their type, or are base64", async (t) => {
    const event = '451-["message",{"_placeholder":true,"num":0}]';
    const plain = await websocket(t);
    plain.socket.send(event);
    plain.socket.send(Buffer.from([4, 1, 2, 3]));
    await eventually(() => plain.seen.some(Array.isArray), "binary");
    assert.deepEqual(plain.seen.at(-1), [4, 1, 2, 3]);
    const coded = await websocket(t, "&b64=1");
    coded.socket.send(event);
    coded.socket.send("b4AQID");
    await eventually(() => coded.seen.includes("b4AQID"), "base64");
  });

  test("a client that pings lives, one that does not is closed in time", async (t) => {
    const due = PING_INTERVAL + EIO3_PING_TIMEOUT;
    await unhurried(async () => {
      const silent = await websocket(t);
      const ended = await within(silent.ended, "the end of the silent one");
      assert.ok(ended - silent.begun > due - 100, `${ended - silent.begun} ms`);
      if (ended - silent.since >= due + 1000) throw new Late(`${ended - silent.since} ms`);
    });
    const pings = await websocket(t);
    const timer = setInterval(() => pings.socket.send("2"), PING_INTERVAL - 100);
    t.after(() => clearInterval(timer));
    await sleep(2 * due);
    assert.equal(pings.socket.readyState, WebSocket.OPEN);
    assert.ok(pings.seen.filter((message) => message === "3").length >= 3);
    assert.ok(!pings.seen.includes("2"), "the server pings nobody");
  });

  test("a pong and a message of another type are no packets of a client", async (t) => {
    for (const message of ["3", "0{}", "b5AQ", Buffer.from([2]), Buffer.from([])]) {
      if (isReference) continue;
      const { socket, ended } = await websocket(t);
      socket.send(message);
      await within(ended, `the end after ${message}, before its silence would end it`, EIO3_PING_TIMEOUT);
    }
  });

  test("is not served where it is not allowed", async () => {
    for (const more of ["", "&j=0", "&b64=1"]) {
      const answer = await fetch(base.replace(from, strictUrl) + more);
      assert.deepEqual([answer.status, await answer.json()], [400, { code: 5, message: "Unsupported protocol version" }]);
    }
  });
});
