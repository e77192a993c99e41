// Options of Socket.IO's server whose matters are the gateway's: they are compared with what it does, and nothing is ignored in silence.
import type { ServerOptions } from "socket.io";
import { Adapter } from "socket.io-adapter";
import type { Manners } from "./messages.js";
import { Unsupported } from "./unsupported.js";

type Options = Partial<ServerOptions>;

/** Using them would silently do nothing. */
const REFUSED: { [Name in keyof ServerOptions]?: string } = {
  parser: 'the gateway speaks with clients; set `parser = "msgpack"` in the gateway\'s configuration',
  wsEngine: "the gateway speaks with clients",
  cookie: "the gateway sets none: no request needs to find the node of its session; `io.engine.on(\"initial_headers\")` can set one",
  initialPacket: "the gateway opens sessions",
};

/** They are decided elsewhere, and the program works without them. */
const UNUSED: { [Name in keyof ServerOptions]?: string } = {
  serveClient: "socketio.serve_client",
  perMessageDeflate: "[compression]",
  httpCompression: "[compression]",
  allowUpgrades: "socketio.transports",
  allowEIO3: "socketio.allow_eio3",
};

/** Methods of an adapter that nobody calls where `connectionStateRecovery` is off, here or in Socket.IO. */
const IDLE = new Set<PropertyKey>(["constructor", "persistSession", "restoreSession"]);

const isGiven = (value: unknown): boolean => value !== undefined && value !== false;

let warned = false;

/** Says at once what cannot be used, and once what does nothing. */
export function refuse(options: Options): void {
  for (const [name, why] of Object.entries(REFUSED)) {
    if (isGiven(options[name as keyof ServerOptions])) throw new Unsupported(`the option \`${name}\``, why);
  }
  refuseAdapter(options);
  refuseCors(options);
  const unused = Object.entries(UNUSED).filter(([name]) => options[name as keyof ServerOptions] !== undefined);
  if (isGiven(options.adapter)) unused.push(["adapter", "[cluster]"]);
  if (warned || unused.length === 0) return;
  warned = true;
  const list = unused.map(([name, key]) => `\`${name}\` (${key} there)`).join(", ");
  process.emitWarning(`options that do nothing here, because they are set in the gateway's configuration: ${list}`, "SockeyeWarning");
}

/** What a class has of its own, up to Socket.IO's adapter in memory; `undefined`: it is no such class. */
function ownMethods(adapter: unknown): PropertyKey[] | undefined {
  const methods: PropertyKey[] = [];
  let at: unknown = typeof adapter === "function" ? adapter.prototype : undefined;
  for (; at && at !== Adapter.prototype; at = Object.getPrototypeOf(at)) methods.push(...Reflect.ownKeys(at));
  return at ? methods : undefined;
}

/** The gateway does what an adapter does. One whose methods nobody would call changes nothing. */
function refuseAdapter({ adapter, connectionStateRecovery }: Options): void {
  if (!isGiven(adapter)) return;
  const called = ownMethods(adapter)?.filter((name) => !IDLE.has(name) || (connectionStateRecovery && name !== "constructor"));
  if (called?.length === 0) return;
  const which = called ? `the option \`adapter\` with a \`${String(called[0])}\` of its own` : "the option `adapter`";
  throw new Unsupported(which, "the gateway is the cluster: leave it out, and set [cluster] in the gateway's configuration for several nodes");
}

function refuseCors({ cors }: Options): void {
  if (!cors) return;
  const rest = "leave it out: `socketio.cors` in the gateway's configuration says which pages may poll";
  if (typeof cors === "function") throw new Unsupported("a function as the option `cors`", rest);
  const isPlain = (origin: unknown) => origin === undefined || typeof origin === "boolean" || typeof origin === "string";
  if (![cors.origin].flat().every(isPlain)) throw new Unsupported("a function or an expression as the option `cors.origin`", rest);
  for (const name of ["exposedHeaders", "preflightContinue"] as const) {
    if (isGiven(cors[name])) throw new Unsupported(`the option \`cors.${name}\``, "the gateway answers pages of other origins");
  }
}

type Pair = [name: string, own: unknown, theirs: unknown, key: string];

/** In one order and one case, so that texts can be compared. */
const list = (values: unknown): string => `[${[values].flat().map((value) => String(value).toLowerCase()).sort().join(", ")}]`;

const split = (value: string | string[]): string[] => (typeof value === "string" ? value.split(",").map((name) => name.trim()) : value);

/** `methods` is not compared: Socket.IO's clients need GET and POST, which the gateway allows. */
function pairsOfCors({ cors: own }: Options, { cors: theirs }: Manners): Pair[] {
  if (!own || typeof own === "function" || !theirs) return [];
  const { origin = "*", credentials, allowedHeaders, maxAge } = own;
  const origins = [origin].flat().map((name) => (name === true ? "*" : name));
  return [
    ["cors.origin", list(origins.filter((name) => name !== false)), list(theirs.origins), "cors"],
    ["cors.credentials", credentials || undefined, list(theirs.origins) !== "[*]", "cors"],
    ["cors.allowedHeaders", allowedHeaders && list(split(allowedHeaders)), list(theirs.headers), "cors_headers"],
    ["cors.maxAge", maxAge, theirs.max_age_s, "cors_max_age"],
  ];
}

/** The gateway's, which may grow with the number of sessions (`heartbeat.stretch`): the shortest suits. */
function interval({ pingInterval: own }: Options, { ping_interval_ms: shortest, ping_interval_longest_ms: longest }: Manners): unknown {
  return own === shortest || !(longest > shortest) ? shortest : `${shortest} to ${longest}`;
}

/** Why these options do not suit the gateway. */
export function compare(options: Options, manners: Manners): Error | undefined {
  const slashed = (path: string) => `/${path.replace(/^\/|\/$/g, "")}/`;
  const pairs: Pair[] = [
    ["pingInterval", options.pingInterval, interval(options, manners), "ping_interval"],
    ["pingTimeout", options.pingTimeout, manners.ping_timeout_ms, "ping_timeout"],
    ["connectTimeout", options.connectTimeout, manners.connect_timeout_ms, "connect_timeout"],
    ["upgradeTimeout", options.upgradeTimeout, manners.upgrade_timeout_ms, "upgrade_timeout"],
    ["maxHttpBufferSize", options.maxHttpBufferSize, manners.max_payload, "max_http_buffer_size"],
    ["path", options.path === undefined ? undefined : slashed(options.path), slashed(manners.path), "path"],
    ["transports", options.transports && list(options.transports), list(manners.transports), "transports"],
    ...pairsOfCors(options, manners),
  ];
  const other = pairs.find(([, own, theirs]) => own !== undefined && own !== theirs);
  if (!other) return undefined;
  const [name, own, theirs, key] = other;
  return new Error(`cannot work with this gateway: the option \`${name}\` is ${own} here, and the gateway has ${theirs}; leave it out, or set socketio.${key} there`);
}
