// What `io.engine` is: the side of Socket.IO's server where sessions come from.
import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Answer, isFree } from "./answer.js";
import type { Header, Verdict } from "./messages.js";
import { Unsupported } from "./unsupported.js";

export type Middleware = (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void;

type AllowRequest = (request: IncomingMessage, done: (message: string | null | undefined, success: boolean) => void) => void;

/** Events in which listeners add header lines to the answer to a request. */
const OF_HEADERS = ["initial_headers", "headers"];
/** What `connection_error` and the client are told, as Engine.IO has it. */
const MIDDLEWARE = { status: 400, code: 3, message: "Bad request", context: { name: "MIDDLEWARE_FAILURE" } as object };
const FORBIDDEN = { status: 403, code: 4, message: "Forbidden", context: {} };

export class Engine extends EventEmitter {
  readonly opts: { allowRequest?: AllowRequest };
  clientsCount = 0;
  /** Sessions by their ids. */
  clients: Record<string, { readonly id: string }> = {};
  /** @internal Of clients' requests, with both slashes, as the gateway has it. */
  path = "/socket.io/";
  readonly #middlewares: Middleware[] = [];
  /** It wants to be asked about requests for sessions. Called when that may have changed. */
  asking: () => void = () => {};

  constructor(opts: object) {
    super();
    this.opts = opts;
  }

  /** @internal */
  add(connection: { readonly id: string }, count: number): void {
    this.clients[connection.id] = connection;
    this.clientsCount = count;
  }

  /** @internal The connection of another gateway may have taken the place of this one. */
  remove(connection: { readonly id: string }, count: number): void {
    if (this.clients[connection.id] === connection) delete this.clients[connection.id];
    this.clientsCount = count;
  }

  /** @internal */
  clear(): void {
    this.clients = {};
    this.clientsCount = 0;
  }

  /** Runs on the request that opens a session. */
  use(middleware: Middleware): void {
    this.#middlewares.push(middleware);
    this.asking();
  }

  override on(event: string, listener: (...args: any[]) => void): this {
    super.on(event, listener);
    if (OF_HEADERS.includes(event)) this.asking();
    return this;
  }

  override once(event: string, listener: (...args: any[]) => void): this {
    super.once(event, listener);
    if (OF_HEADERS.includes(event)) this.asking();
    return this;
  }

  /** Something here decides about requests for sessions, or adds to their answers. */
  get asks(): boolean {
    return this.opts.allowRequest !== undefined || this.#middlewares.length > 0 || OF_HEADERS.some((event) => this.listenerCount(event) > 0);
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

  /** @internal Whether the request may open its session, and header lines for the answer. */
  admit(request: IncomingMessage, done: (verdict: Verdict) => void): void {
    if (!this.asks) return done({ admit: true, message: "", headers: [] });
    const response = new Answer(request);
    let ended = false;
    let failure = MIDDLEWARE;
    const end = (error?: Error) => {
      if (ended) return;
      ended = true;
      let headers: Header[] = [];
      try {
        if (!error) headers = this.#headers(request, response);
      } catch (thrown) {
        // Its head may say 200 already: the gateway answers in its place.
        return done({ admit: false, message: asError(thrown).message, headers: [] });
      }
      const { message } = error ?? { message: "" };
      const told = () => done(error ? response.refusal(message) : { admit: true, message, headers });
      if (error ? response.writableFinished : response.writableEnded || isUpgrade(request)) return told();
      // Sessions are stored at the end of an answer: the client's next request needs them.
      response.on("finish", told);
      if (!error) return void response.end();
      // What middleware ended by itself, it has answered.
      if (response.writableEnded) return;
      this.emit("connection_error", { req: request, code: failure.code, message: failure.message, context: { ...failure.context, message } });
      abort(request, response, failure === FORBIDDEN ? { ...failure, message } : failure);
    };
    response.on("finish", () => end(new Error("refused by a middleware of the engine")));
    const guard = (act: () => void) => {
      try {
        act();
      } catch (error) {
        // What comes of the decision is another matter.
        if (ended) throw error;
        end(asError(error));
      }
    };
    const step = (at: number): void => {
      if (at === this.#middlewares.length) {
        failure = FORBIDDEN;
        return guard(() => this.#allow(request, end));
      }
      guard(() => this.#middlewares[at](request, response, (error) => (error ? end(asError(error)) : step(at + 1))));
    };
    step(0);
  }

  #allow(request: IncomingMessage, end: (error?: Error) => void): void {
    const { allowRequest } = this.opts;
    if (!allowRequest) return end();
    allowRequest(request, (message, success) => end(success ? undefined : new Error(message || "Forbidden")));
  }

  /** What middleware and listeners add to the answer. */
  #headers(request: IncomingMessage, response: ServerResponse): Header[] {
    const added: Record<string, unknown> = {};
    // Middleware such as sessions sets its cookies just before the head is written.
    if (!response.headersSent) response.writeHead(200);
    for (const event of OF_HEADERS) this.emit(event, added, request);
    const lines = Object.entries({ ...response.getHeaders(), ...added });
    return lines
      .filter(([name, value]) => value !== undefined && isFree(name) && name.toLowerCase() !== "content-type")
      .flatMap(([name, value]) => [value].flat().map((line) => ({ name, value: Buffer.from(String(line)) })));
  }
}

/** Answers as Engine.IO does, behind what middleware has written already. */
function abort(request: IncomingMessage, response: Answer, { status, code, message }: typeof FORBIDDEN): void {
  if (response.headersSent) return void response.end();
  const upgrade = isUpgrade(request);
  response.writeHead(status, { "Content-Type": upgrade ? "text/html" : "application/json" });
  response.end(upgrade ? message : JSON.stringify({ code, message }));
}

/** Its answer has no end. */
const isUpgrade = ({ headers }: IncomingMessage): boolean => headers.upgrade !== undefined;

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
