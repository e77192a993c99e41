// What `io.engine` is: the side of Socket.IO's server where sessions come from.
import { EventEmitter } from "node:events";
import { ServerResponse } from "node:http";
import type { IncomingMessage } from "node:http";
import { Unsupported } from "./unsupported.js";

export type Middleware = (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void;

const OF_REQUESTS = new Set(["initial_headers", "headers"]);

export class Engine extends EventEmitter {
  readonly opts: object;
  clientsCount = 0;
  readonly #middlewares: Middleware[] = [];

  constructor(opts: object) {
    super();
    this.opts = opts;
  }

  /** Runs on the request that opened a session, before its first CONNECT is handled here. */
  use(middleware: Middleware): void {
    this.#middlewares.push(middleware);
  }

  override on(event: string, listener: (...args: any[]) => void): this {
    if (OF_REQUESTS.has(event)) {
      throw new Unsupported(`io.engine.on("${event}")`, "the gateway answers HTTP requests before a worker hears of them; set headers in a proxy");
    }
    return super.on(event, listener);
  }

  set generateId(_: unknown) {
    throw new Unsupported("io.engine.generateId", "the gateway makes the ids of sessions, because they say which shard holds them");
  }

  attach(): never {
    throw new Unsupported("io.engine.attach", "clients connect to the gateway");
  }

  handleRequest(): never {
    throw new Unsupported("io.engine.handleRequest", "clients connect to the gateway");
  }

  handleUpgrade(): never {
    throw new Unsupported("io.engine.handleUpgrade", "clients connect to the gateway");
  }

  close(): this {
    return this;
  }

  /** @internal */
  admit(request: IncomingMessage, done: (error?: Error) => void): void {
    if (this.#middlewares.length === 0) return done();
    const response = new ServerResponse(request);
    let ended = false;
    const end = (error?: Error) => {
      if (ended) return;
      ended = true;
      done(error);
    };
    response.on("finish", () => end(new Error("refused by a middleware of the engine")));
    const step = (at: number): void => {
      if (at === this.#middlewares.length) return end();
      try {
        this.#middlewares[at](request, response, (error) => {
          if (error) end(error instanceof Error ? error : new Error(String(error)));
          else step(at + 1);
        });
      } catch (error) {
        end(error instanceof Error ? error : new Error(String(error)));
      }
    };
    step(0);
  }
}
