// A raw Engine.IO session over HTTP long-polling.
import http from "node:http";
import { request, start, query } from "./http.js";
import { isStray, SEPARATOR } from "./packet.js";
import { NOOP, PING, PONG, Session } from "./session.js";

export class Polling extends Session {
  static transport = "polling";

  static async open({ path = "/socket.io/", from, parameters = {}, headers } = {}) {
    const session = new Polling(path, from, { EIO: "4", transport: "polling", ...parameters });
    const answer = await session.get(headers);
    if (answer.status !== 200) throw new Error(`handshake was answered ${answer.status} ${answer.body}`);
    if (!answer.body.startsWith("0{")) throw new Error(`handshake body is not an open packet: ${answer.body}`);
    session.handshake = JSON.parse(answer.body.slice(1));
    session.sid = session.handshake.sid;
    return session;
  }

  constructor(path, from, parameters) {
    super();
    this.path = path;
    this.from = from;
    this.parameters = parameters;
    // A connection for the GET and one for the POST, as browsers keep them.
    this.agent = new http.Agent({ keepAlive: true });
  }

  /** Path and query of this session, for requests that tests send themselves. */
  target(extra = {}) {
    const sid = this.sid ? { sid: this.sid } : {};
    return this.path + query({ ...this.parameters, ...sid, ...extra });
  }

  get(headers) {
    return request(this.target(), { headers, from: this.from, agent: this.agent });
  }

  /** A GET that can be cut. */
  startGet() {
    return start(this.target(), { from: this.from, agent: this.agent });
  }

  post(body, headers = { "content-type": "text/plain;charset=UTF-8" }) {
    return request(this.target(), { method: "POST", headers, body, from: this.from, agent: this.agent });
  }

  /** Sends packets in one POST. Binary packets go as `b` + base64. */
  async send(...packets) {
    const body = packets.map((packet) => (typeof packet === "string" ? packet : `b${packet.toString("base64")}`)).join(SEPARATOR);
    const answer = await this.post(body);
    if (answer.status !== 200 || answer.body !== "ok") throw new Error(`POST was answered ${answer.status} ${answer.body}`);
  }

  async nextRaw() {
    while (this.queue.length === 0) {
      const answer = await this.get();
      if (answer.status !== 200) throw new Error(`poll was answered ${answer.status} ${answer.body}`);
      this.queue.push(...answer.body.split(SEPARATOR));
    }
    return this.queue.shift();
  }

  /** The next attachment, as bytes. */
  async nextBinary() {
    const packet = await this.next("an attachment");
    if (!packet.startsWith("b")) throw new Error(`expected an attachment, got ${packet}`);
    return Buffer.from(packet.slice(1), "base64");
  }

  /** The packets of an answer that a test looks at: no heartbeat, no noop, no strangers' broadcast. */
  static packets(answer) {
    return answer.body.split(SEPARATOR).filter((packet) => packet !== PING && packet !== NOOP && !isStray(packet));
  }

  /** Resolves to the JSON error once the session is gone. */
  async ended() {
    for (;;) {
      const answer = await this.get();
      if (answer.status !== 200) return { status: answer.status, ...JSON.parse(answer.body) };
      // The session has to end for the test's reason, not for want of a pong.
      if (this.answersPings && answer.body.split(SEPARATOR).includes(PING)) await this.post(PONG);
    }
  }

  async close() {
    await this.post("1").catch(() => {});
    this.agent.destroy();
  }
}
