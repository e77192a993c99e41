// Socket.IO's server, fed by the gateway.
import { randomUUID } from "node:crypto";
import type { Server as HttpServer } from "node:http";
import { Namespace, Server as SocketIoServer } from "socket.io";
import type { DefaultEventsMap, ServerOptions, Socket } from "socket.io";
import type { Adapter as SocketIoAdapter } from "socket.io-adapter";
import { SockeyeAdapter } from "./adapter.js";
import type { Adapters } from "./adapter.js";
import { compare, refuse } from "./compare.js";
import { Engine } from "./engine.js";
import { Hints } from "./hints.js";
import { Link } from "./link.js";
import type { Handlers, Tls } from "./link.js";
import type { Member } from "./member.js";
import { Decoder, Encoder } from "./parser.js";
import type { Packet } from "./parser.js";
import { Unsupported } from "./unsupported.js";
import { Worker } from "./worker.js";

export interface Options extends Partial<ServerOptions> {
  /** Address of `workers.listen`: `host:port`, `https://host:port` for TLS, or `unix:/path`. Default: the environment's SOCKEYE_GATEWAY. */
  gateway?: string | string[];
  /** A key of the backend: `sockeye api-key NAME`. Default: SOCKEYE_KEY. */
  key?: string;
  /** Name of the table `[backends.NAME]`. Default: SOCKEYE_BACKEND. */
  backend?: string;
  /** Share of the sockets, compared with other workers. */
  weight?: number;
  tls?: Tls;
  /** Milliseconds. An event counts as handled when the promises that its listeners return have settled, and after so long in any case: 30,000. */
  handlerTimeout?: number;
}

type AdapterConstructor = typeof SocketIoAdapter | ((namespace: Namespace) => SocketIoAdapter);

interface EventsMap {
  [event: string]: any;
}

const HANDLER_TIMEOUT_MS = 30_000;

type HttpServers = HttpServer | { listen: unknown; close(done?: (error?: Error) => void): unknown };

let warned = false;

function warnOfServer(): void {
  if (warned) return;
  warned = true;
  process.emitWarning("clients connect to the gateway: the HTTP server keeps its own routes, and Socket.IO is not attached to it", "SockeyeWarning");
}

function needed(value: string | undefined, option: string, variable: string): string {
  const found = value ?? process.env[variable];
  if (!found) throw new Error(`cannot attach to the gateway: give new Server() the option \`${option}\`, or set ${variable}`);
  return found;
}

function links(options: Options): { gateways: string[]; key: string; backend: string; weight: number; tls?: Tls; handlerTimeout: number } {
  const gateway = typeof options.gateway === "string" ? options.gateway : options.gateway?.join(",");
  return {
    gateways: needed(gateway, "gateway", "SOCKEYE_GATEWAY").split(",").map((address) => address.trim()).filter(Boolean),
    key: needed(options.key, "key", "SOCKEYE_KEY"),
    backend: needed(options.backend, "backend", "SOCKEYE_BACKEND"),
    weight: options.weight ?? 1,
    tls: options.tls,
    handlerTimeout: options.handlerTimeout ?? HANDLER_TIMEOUT_MS,
  };
}

export class Server<
  ListenEvents extends EventsMap = DefaultEventsMap,
  EmitEvents extends EventsMap = ListenEvents,
  ServerSideEvents extends EventsMap = DefaultEventsMap,
  SocketData = any,
> extends SocketIoServer<ListenEvents, EmitEvents, ServerSideEvents, SocketData> {
  readonly #worker: Worker;
  readonly #adapters: Adapters;
  /** What was given here and to `attach`. */
  readonly #options: Options;
  readonly #nodeGoneListeners: ((node: number) => void)[];
  readonly #hints: Hints;

  constructor(options?: Options);
  constructor(server?: HttpServers | number, options?: Options);
  constructor(first?: HttpServers | number | Options, second?: Options) {
    const isServer = typeof first === "number" || (typeof first === "object" && first !== null && "listen" in first);
    const options: Options = (isServer ? second : ((first as Options | undefined) ?? second)) ?? {};
    refuse(options);
    const adapters: Adapters = new Map();
    const nodeGoneListeners: ((node: number) => void)[] = [];
    const local = {
      waiting: (namespace: string, id: string, ack: number) => adapters.get(namespace)?.waiting(id, ack),
      receive: (namespace: string, id: string, packet: Packet) => adapters.get(namespace)?.receive(id, packet) ?? false,
      data: (namespace: string, id: string) => adapters.get(namespace)?.data(id),
      follow: (namespace: string, id: string, rooms: string[]) => adapters.get(namespace)?.follow(id, rooms),
      moved: (namespace: string, id: string, joined: string[], left: string[]) => adapters.get(namespace)?.moved(id, joined, left),
      failed: (namespace: string, id: string, error: Error) => adapters.get(namespace)?.failed(id, error),
      told: (namespace: string, event: unknown[]) => adapters.get(namespace)?.told(event),
      nodeGone: (node: number) => nodeGoneListeners.forEach((listener) => listener(node)),
    };
    const { gateways, ...settings } = links(options);
    const own: Options = { ...options };
    const engine = new Engine(own);
    const attach = (handlers: Handlers) => {
      const instance = randomUUID();
      return gateways.map((gateway, at) => new Link({ ...settings, instance, gateway, away: at > 0 }, handlers));
    };
    const worker = new Worker(attach, engine, local);
    const hints = new Hints(settings.backend);
    worker.compare = (manners) => {
      const error = compare(own, manners);
      if (!error) hints.hear(manners);
      return error;
    };
    worker.parted = ({ namespace, id }: Member) => adapters.get(namespace)?.part(id);
    worker.ousted = ({ namespace, id }: Member) => adapters.get(namespace)?.oust(id);
    class Adapter extends SockeyeAdapter {
      constructor(namespace: unknown) {
        super(namespace, worker, adapters);
      }
    }
    super({
      ...options,
      parser: { Encoder, Decoder } as any,
      adapter: Adapter as any,
      // Sockets get the gateway's ids, and those of lost workers their state, by the hook of connection state recovery.
      connectionStateRecovery: { skipMiddlewares: false },
    });
    this.#worker = worker;
    this.#adapters = adapters;
    this.#options = own;
    this.#nodeGoneListeners = nodeGoneListeners;
    this.#hints = hints;
    hints.wantsRecovery = () => own.connectionStateRecovery !== undefined;
    hints.handlesRoot = () => this.listeners("connection").length + this.listeners("connect").length > 0;
    if (isServer) this.#take(first as HttpServers | number);
    (this as unknown as { eio: Engine }).eio = engine;
    this.bind(engine as any);
  }

  /** The gateway has welcomed this worker; rejects when it refuses the key. */
  get ready(): Promise<void> {
    return this.#worker.ready;
  }

  /** Events, joins, leaves and the like that were not sent: 64 MiB waited for a gateway that was away, or one had more than 12 MiB, or a name that is no text. */
  get dropped(): number {
    return this.#worker.dropped;
  }

  /** Events that count as handled since `handlerTimeout` was over, although their listeners' promises have not settled. */
  get overdue(): number {
    return this.#worker.overdue;
  }

  /** Calls this when another node of the cluster is gone, and its sockets with it: no `disconnect` comes for them. */
  onNodeGone(listener: (node: number) => void): this {
    this.#nodeGoneListeners.push(listener);
    return this;
  }

  get #skips(): boolean {
    const recovery = this.#options.connectionStateRecovery;
    return recovery !== undefined && recovery.skipMiddlewares !== false;
  }

  override of(
    name: Parameters<SocketIoServer["of"]>[0],
    listener?: (socket: Socket<ListenEvents, EmitEvents, ServerSideEvents, SocketData>) => void,
  ): Namespace<ListenEvents, EmitEvents, ServerSideEvents, SocketData> {
    const path = typeof name !== "string" || name.startsWith("/") ? name : `/${name}`;
    const known = typeof path === "string" && this._nsps.has(path);
    // Socket.IO's constructor asks for `/` before there is anything here.
    if (!known && typeof path === "string" && #hints in this) this.#hints.named(path);
    const namespace = super.of(name);
    // Before all middleware of the program. A namespace made after a pattern has that of the pattern.
    if (!known) namespace.use(introduce as any);
    if (!known) skipMiddlewares(namespace as any, () => this.#skips);
    if (listener) namespace.on("connect", listener as any);
    return namespace;
  }

  /** Clients connect to the gateway. After `close()`, this worker attaches to it again. */
  override attach(server?: HttpServers | number, options: Partial<ServerOptions> = {}): this {
    refuse({ ...this.#options, ...options });
    Object.assign(this.#options, { ...options, ...this.#options });
    const error = this.#worker.check();
    if (error) throw error;
    if (server !== undefined) this.#take(server);
    this.#worker.reopen();
    return this;
  }

  override listen(server?: HttpServers | number, options?: Partial<ServerOptions>): this {
    return this.attach(server, options);
  }

  override adapter(): AdapterConstructor | undefined;
  override adapter(adapter: AdapterConstructor): this;
  override adapter(adapter?: AdapterConstructor): any {
    // Socket.IO's constructor sets ours by this.
    if (adapter && !((adapter as { prototype?: unknown }).prototype instanceof SockeyeAdapter)) {
      throw new Unsupported("io.adapter", "the gateway is the cluster: leave it out, and set [cluster] in the gateway's configuration for several nodes");
    }
    return adapter ? super.adapter(adapter) : super.adapter();
  }

  #take(server: HttpServers | number): void {
    warnOfServer();
    if (typeof server === "object") this.httpServer = server as any;
  }

  override attachApp(): never {
    throw new Unsupported("io.attachApp", "clients connect to the gateway");
  }

  /** Hands the sockets over to other workers; their clients notice nothing. `io.disconnectSockets(true)` ends them. */
  override async close(done?: (error?: Error) => void): Promise<void> {
    await this.#worker.close();
    // They are other workers' now.
    for (const adapter of this.#adapters.values()) adapter.clear();
    const server = this.httpServer as unknown as { close?(done: (error?: Error) => void): void } | undefined;
    const error = await new Promise<Error | undefined>((resolve) => (server?.close ? server.close(resolve) : resolve(undefined)));
    done?.(error);
  }
}

/** A client that comes back was let in before: only its token is judged, by the gateway. */
function skipMiddlewares(namespace: { run(socket: Socket, next: (error: Error | null) => void): void }, skips: () => boolean): void {
  const run = namespace.run;
  namespace.run = function (socket, next) {
    const { adapter } = socket.nsp;
    if (!(adapter instanceof SockeyeAdapter) || !adapter.returns(socket.id) || !skips()) return run.call(this, socket, next);
    introduce(socket, () => next(null));
  };
}

function introduce(socket: Socket, next: () => void): void {
  const { adapter } = socket.nsp;
  if (adapter instanceof SockeyeAdapter) adapter.introduce(socket as any);
  next();
}

export { Namespace };
