// A raw Engine.IO session over WebSocket (also the second half of an upgrade), and nothing hidden:
// text frames come as strings, binary frames as Buffers.
import WebSocket from "ws";
import { url as base } from "./target.js";
import { query } from "./http.js";
import { within } from "./patience.js";
import { PING, PONG, Session } from "./session.js";

export class WebSocketSession extends Session {
  static transport = "websocket";

  /** Opens a session of its own and reads the open packet. */
  static async open({ path = "/socket.io/", from, parameters = {}, headers } = {}) {
    const session = await WebSocketSession.dial(path + query({ EIO: "4", transport: "websocket", ...parameters }), { from, headers });
    const first = await within(session.nextRaw(), "the open packet");
    if (typeof first !== "string" || !first.startsWith("0{")) throw new Error(`first frame is not an open packet: ${first}`);
    session.handshake = JSON.parse(first.slice(1));
    session.sid = session.handshake.sid;
    return session;
  }

  /** Opens the WebSocket that a polling session wants to move to. */
  static upgrade(polling, parameters = {}) {
    return WebSocketSession.dial(polling.target({ transport: "websocket", ...parameters }), { from: polling.from });
  }

  /** Opens a WebSocket; rejects with a { status, body } error when it is refused over HTTP. */
  static async dial(path, { from = base, headers } = {}) {
    const socket = new WebSocket(new URL(path, from.replace(/^http/, "ws")), { headers, maxPayload: 0 });
    const session = new WebSocketSession(socket);
    await within(session.opened, `the WebSocket ${path}`);
    return session;
  }

  #waiting = [];

  constructor(socket) {
    super();
    this.socket = socket;
    socket.on("message", (data, isBinary) => this.#deliver(isBinary ? data : data.toString("utf8")));
    socket.on("upgrade", (response) => (this.response = response));
    this.closed = new Promise((resolve) => {
      socket.on("close", (code, reason) => this.#end(resolve, { code, reason: reason.toString() }));
    });
    this.opened = new Promise((resolve, reject) => {
      socket.once("open", resolve);
      socket.on("error", reject);
      socket.once("unexpected-response", (_request, response) => refuse(response, reject));
    });
    // Refusals before the handshake ends are seen by dial(); later errors show as `closed`.
    this.opened.catch(() => {});
  }

  #deliver(packet) {
    // Answered at once, as clients do, not when a test gets round to reading.
    if (packet === PING && this.answersPings) return this.socket.send(PONG);
    const waiting = this.#waiting.shift();
    if (waiting) waiting.resolve(packet);
    else this.queue.push(packet);
  }

  #end(resolve, close) {
    this.closing = close;
    for (const { reject } of this.#waiting.splice(0)) reject(new Error(`closed with ${close.code}`));
    resolve(close);
  }

  nextRaw() {
    if (this.queue.length > 0) return Promise.resolve(this.queue.shift());
    if (this.closing) return Promise.reject(new Error(`closed with ${this.closing.code}`));
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  async nextBinary() {
    const packet = await this.next("an attachment");
    if (typeof packet === "string") throw new Error(`expected a binary frame, got ${packet}`);
    return packet;
  }

  send(...packets) {
    for (const packet of packets) this.socket.send(packet);
    return Promise.resolve();
  }

  /** Resolves to the close once the session is gone. */
  ended() {
    return this.closed;
  }

  async close() {
    this.socket.terminate();
  }
}

async function refuse(response, reject) {
  const chunks = [];
  for await (const chunk of response) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString("utf8");
  reject(Object.assign(new Error(`refused with ${response.statusCode} ${body}`), { status: response.statusCode, body, headers: response.headers }));
}
