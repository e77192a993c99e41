// What middleware of the engine answers to a request that opens no session.
import { ServerResponse } from "node:http";
import type { IncomingMessage } from "node:http";
import type { Socket as NetSocket } from "node:net";
import { Writable } from "node:stream";
import type { Header, Verdict } from "./messages.js";

/** Header lines that are the gateway's own, or say how its answer is framed. */
const FRAMING = /^(connection|content-length|date|keep-alive|transfer-encoding|upgrade|sec-websocket-.*)$/i;
/** The gateway takes no more. */
const BODY_BYTES_MAX = 64 << 10;
/** Heads that stand before the answer's own: `writeContinue`, `writeEarlyHints`. */
const EARLY = /^HTTP\/1\.1 1\d\d [^]*?\r\n\r\n/;
/** RFC 9110 §15: these answers have no content. */
const EMPTY = [204, 205, 304];

/** Lines that may stand in an answer of the gateway. */
export const isFree = (name: string): boolean => !FRAMING.test(name);

/** Middleware hears that all it writes is written. A client is told by the gateway, and only if it is not let in. */
export class Answer extends ServerResponse {
  /** As Node writes it: `writeHead` may have lines that `getHeaders` does not know. */
  #head = "";
  readonly #body: Buffer[] = [];
  #bytes = 0;

  constructor(request: IncomingMessage) {
    super(request);
    const write = (chunk: Buffer, _: string, done: () => void) => {
      if (!this.#head.includes("\r\n\r\n")) this.#head += chunk.toString("latin1");
      while (EARLY.test(this.#head)) this.#head = this.#head.replace(EARLY, "");
      done();
    };
    this.assignSocket(new Writable({ write }) as unknown as NetSocket);
  }

  override write(chunk: any, ...rest: any[]): boolean {
    this.#keep(chunk, rest[0]);
    return super.write(chunk, ...(rest as [any]));
  }

  override end(...all: any[]): this {
    this.#keep(all[0], all[1]);
    return super.end(...(all as [any]));
  }

  #keep(chunk: unknown, encoding: unknown): void {
    if (this.writableEnded || !(typeof chunk === "string" || chunk instanceof Uint8Array)) return;
    const bytes = typeof chunk === "string" ? Buffer.from(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8") : Buffer.from(chunk);
    this.#bytes += bytes.length;
    if (this.#bytes <= BODY_BYTES_MAX) this.#body.push(bytes);
  }

  /** It is written. */
  refusal(message: string): Verdict {
    const refused = { admit: false, message, headers: [] };
    const { statusCode: status } = this;
    const error = this.#bytes > BODY_BYTES_MAX ? `it has ${this.#bytes} bytes, and the gateway takes ${BODY_BYTES_MAX}` : status < 200 || status > 599 ? "it is none of 200 to 599" : "";
    if (error) {
      console.error(`sockeye: cannot send the answer of a middleware with status ${status}: ${error}; the client is told 403`);
      return refused;
    }
    const [head] = this.#head.split("\r\n\r\n", 1);
    const [, ...lines] = head.split("\r\n");
    const headers = lines.map(header).filter(({ name }) => isFree(name));
    return { ...refused, status, headers, body: EMPTY.includes(status) ? Buffer.alloc(0) : Buffer.concat(this.#body) };
  }
}

function header(line: string): Header {
  const colon = line.indexOf(":");
  return { name: line.slice(0, colon), value: Buffer.from(line.slice(colon + 1).trim(), "latin1") };
}
