// A WebSocket client at the level of bytes, for what a library would do on its own: answering a
// close frame, masking, fragmenting, hiding the moment TCP ends.
import net from "node:net";
import { randomBytes } from "node:crypto";
import { url as base } from "./target.js";
import { isStray } from "./packet.js";
import { within } from "./patience.js";
import { PING } from "./session.js";

export const TEXT = 1;
export const BINARY = 2;
export const CLOSE = 8;
export const PING_FRAME = 9;
export const PONG_FRAME = 10;

/** Encodes one frame; clients must mask (RFC 6455 5.3), a test may ask not to. */
export function frame(opcode, payload, { fin = true, masked = true, rsv = 0 } = {}) {
  const data = Buffer.from(payload);
  const first = (fin ? 0x80 : 0) | (rsv << 4) | opcode;
  const length = lengthField(data.length, masked);
  if (!masked) return Buffer.concat([Buffer.from([first]), length, data]);
  const key = randomBytes(4);
  for (let i = 0; i < data.length; i++) data[i] ^= key[i & 3];
  return Buffer.concat([Buffer.from([first]), length, key, data]);
}

function lengthField(length, masked) {
  const mask = masked ? 0x80 : 0;
  if (length < 126) return Buffer.from([mask | length]);
  const field = Buffer.alloc(length < 65536 ? 3 : 9);
  field[0] = mask | (length < 65536 ? 126 : 127);
  if (length < 65536) field.writeUInt16BE(length, 1);
  else field.writeBigUInt64BE(BigInt(length), 1);
  return field;
}

export class TcpClient {
  static async open(t) {
    const { hostname, port } = new URL(base);
    const socket = net.connect({ host: hostname, port });
    t.after(() => socket.destroy());
    await within(new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject)), "a TCP connection");
    return new TcpClient(socket);
  }

  /** Opens and upgrades; the returned client has read the 101. */
  static async upgrade(t, path, headers = {}) {
    const client = await TcpClient.open(t);
    client.write(TcpClient.upgradeRequest(path, headers));
    client.head = await client.readHead();
    return client;
  }

  /** The text of a WebSocket handshake; a header set to undefined is left out. */
  static upgradeRequest(path, headers = {}) {
    const all = {
      Host: new URL(base).host,
      Upgrade: "websocket",
      Connection: "Upgrade",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
      ...headers,
    };
    const lines = Object.entries(all).filter(([, value]) => value !== undefined).map(([name, value]) => `${name}: ${value}\r\n`);
    return `GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`;
  }

  #received = Buffer.alloc(0);
  #arrived = () => {};

  constructor(socket) {
    this.socket = socket;
    /** Resolves when the server ended or reset the connection. */
    this.ended = new Promise((resolve) => socket.once("end", resolve).once("close", resolve));
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#arrived();
    });
    this.ended.then(() => this.#arrived());
  }

  write(bytes) {
    this.socket.write(bytes);
  }

  async readHead() {
    const end = await this.#until(() => this.#received.indexOf("\r\n\r\n") + 1, "an HTTP head");
    const head = this.#take(end + 3).toString("latin1");
    return { status: Number(head.split(" ")[1]), text: head };
  }

  /** The next frame as { opcode, payload, masked, rsv }; pings and strangers' broadcasts are passed over. */
  async readFrame(ms) {
    for (;;) {
      const next = await this.#until(() => this.#parse(), "a frame", ms);
      const text = next.opcode === TEXT ? next.payload.toString() : "";
      if (text !== PING && !isStray(text)) return next;
    }
  }

  #parse() {
    const bytes = this.#received;
    if (bytes.length < 2) return undefined;
    let length = bytes[1] & 0x7f;
    let offset = 2;
    if (length === 126 && bytes.length >= 4) [length, offset] = [bytes.readUInt16BE(2), 4];
    else if (length === 127 && bytes.length >= 10) [length, offset] = [Number(bytes.readBigUInt64BE(2)), 10];
    else if (length > 125) return undefined;
    if (bytes.length < offset + length) return undefined;
    const taken = this.#take(offset + length);
    return { opcode: taken[0] & 15, fin: taken[0] >= 0x80, rsv: (taken[0] >> 4) & 7, masked: taken[1] >= 0x80, payload: taken.subarray(offset) };
  }

  #take(count) {
    const taken = this.#received.subarray(0, count);
    this.#received = this.#received.subarray(count);
    return taken;
  }

  async #until(parse, what, ms) {
    let over = false;
    this.ended.then(() => (over = true));
    const search = async () => {
      for (;;) {
        const found = parse();
        if (found) return found;
        if (over) throw new Error(`the connection ended while waiting for ${what}`);
        await new Promise((resolve) => (this.#arrived = resolve));
      }
    };
    return within(search(), what, ms);
  }
}
