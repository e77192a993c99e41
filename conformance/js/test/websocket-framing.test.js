// RFC 6455 below Socket.IO: what a library hides. Autobahn does the rest on a bare echo.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { connect, event } from "../peer/packet.js";
import { within } from "../peer/patience.js";
import { openFor } from "../peer/session.js";
import { isReference } from "../peer/target.js";
import { BINARY, CLOSE, frame, PING_FRAME, PONG_FRAME, TcpClient, TEXT } from "../peer/tcp.js";
import { WebSocketSession } from "../peer/websocket.js";

const PATH = "/socket.io/?EIO=4&transport=websocket";

async function joined(t) {
  const client = await TcpClient.upgrade(t, PATH);
  assert.equal(client.head.status, 101);
  await client.readFrame();
  client.write(frame(TEXT, connect("/lab")));
  await client.readFrame();
  return client;
}

async function assertEcho(client, text) {
  client.write(frame(TEXT, event("/lab", ["echo", text], 1)));
  assert.equal((await client.readFrame()).payload.toString(), `43/lab,1${JSON.stringify([text])}`);
}

async function assertClosed(client, code) {
  const last = await client.readFrame();
  assert.equal(last.opcode, CLOSE);
  assert.equal(last.payload.readUInt16BE(0), code);
}

test("compression is not negotiated though every client offers it", async (t) => {
  const session = await openFor(t, WebSocketSession);
  assert.equal(session.socket.extensions, "");
  assert.equal(session.response.headers["sec-websocket-extensions"], undefined);
  const { head } = await TcpClient.upgrade(t, PATH, { "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits" });
  assert.equal(head.status, 101);
  assert.doesNotMatch(head.text, /sec-websocket-extensions/i);
});

test("the 101 proves the key", async (t) => {
  const key = Buffer.from("0123456789abcdef").toString("base64");
  const { head } = await TcpClient.upgrade(t, PATH, { "Sec-WebSocket-Key": key });
  const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
  assert.match(head.text, new RegExp(`^sec-websocket-accept: ${accept.replace(/[+/]/g, "\\$&")}\r$`, "im"));
  assert.match(head.text, /^upgrade: websocket\r$/im);
  assert.match(head.text, /^connection: upgrade\r$/im);
});

test("frames of the server are not masked, text is text and bytes are bytes", async (t) => {
  const client = await joined(t);
  client.write(frame(TEXT, '451-/lab,1["echo",{"_placeholder":true,"num":0}]'));
  client.write(frame(BINARY, [1, 2, 3]));
  const [header, attachment] = [await client.readFrame(), await client.readFrame()];
  assert.deepEqual([header.opcode, header.masked, header.rsv, header.fin], [TEXT, false, 0, true]);
  assert.deepEqual([attachment.opcode, attachment.masked, [...attachment.payload]], [BINARY, false, [1, 2, 3]]);
});

test("frames that share a segment with the handshake are answered after the 101", async (t) => {
  const client = await TcpClient.open(t);
  client.write(Buffer.concat([Buffer.from(TcpClient.upgradeRequest(PATH)), frame(TEXT, connect("/lab"))]));
  assert.equal((await client.readHead()).status, 101);
  assert.match((await client.readFrame()).payload.toString(), /^0\{/);
  assert.match((await client.readFrame()).payload.toString(), /^40\/lab,/);
});

test("a message that arrives byte by byte, in fragments, with a ping between them", async (t) => {
  const client = await joined(t);
  const text = event("/lab", ["echo", "fragmented é😀"], 1);
  const data = Buffer.from(text);
  client.write(frame(TEXT, data.subarray(0, 12), { fin: false }));
  client.write(frame(PING_FRAME, "are you there"));
  for (const byte of data.subarray(12)) client.write(frame(0, [byte], { fin: false }));
  client.write(frame(0, ""));
  const pong = await client.readFrame();
  assert.deepEqual([pong.opcode, pong.payload.toString()], [PONG_FRAME, "are you there"]);
  assert.equal((await client.readFrame()).payload.toString(), '43/lab,1["fragmented é😀"]');
});

test("an unmasked frame is a protocol error, 1002", async (t) => {
  const client = await joined(t);
  client.write(frame(TEXT, event("/lab", ["echo"]), { masked: false }));
  await assertClosed(client, 1002);
});

test("a reserved bit is a protocol error, 1002", async (t) => {
  const client = await joined(t);
  client.write(frame(TEXT, event("/lab", ["echo"]), { rsv: 4 }));
  await assertClosed(client, 1002);
});

test("invalid UTF-8 is 1007", async (t) => {
  const client = await joined(t);
  client.write(frame(TEXT, [0x34, 0x32, 0xff, 0xfe]));
  await assertClosed(client, 1007);
});

test("a declared length over the limit is refused from the header alone, 1009", async (t) => {
  const client = await joined(t);
  const header = Buffer.alloc(14);
  header.writeUInt8(0x81, 0);
  header.writeUInt8(0x80 | 127, 1);
  header.writeBigUInt64BE(1_000_001n, 2);
  client.write(header);
  await assertClosed(client, 1009);
});

test("a close frame is answered with its code and TCP ends", async (t) => {
  const client = await joined(t);
  await assertEcho(client, "before");
  client.write(frame(CLOSE, [0x03, 0xe8]));
  const reply = await client.readFrame();
  assert.equal(reply.opcode, CLOSE);
  if (reply.payload.length > 0) assert.equal(reply.payload.readUInt16BE(0), 1000);
  await within(client.ended, "the end of TCP");
});

for (const [what, headers, statuses] of [
  ["version 99", { "Sec-WebSocket-Version": "99" }, [400, 426]],
  ["no key", { "Sec-WebSocket-Key": undefined }, [400]],
  ["a short key", { "Sec-WebSocket-Key": "c2hvcnQ=" }, [400]],
  ["another protocol to upgrade to", { Upgrade: "h2c" }, [400, 426, 501]],
]) {
  test(`a handshake with ${what} is refused over HTTP`, async (t) => {
    const client = await TcpClient.open(t);
    client.write(TcpClient.upgradeRequest(PATH, headers));
    // Node drops the connection of an upgrade to anything else without a word.
    const head = await client.readHead().catch((error) => ({ status: isReference ? 400 : error.message }));
    assert.ok(statuses.includes(head.status), `answered ${head.status}`);
  });
}

test("header names and values in a browser's spelling are understood", async (t) => {
  const client = await TcpClient.upgrade(t, PATH, { Upgrade: "WebSocket", Connection: "keep-alive, Upgrade" });
  assert.equal(client.head.status, 101);
});
