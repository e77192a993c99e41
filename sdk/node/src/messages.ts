// The messages of `proto/sockeye/worker/v1/worker.proto`, and of `types.proto` beside it, as this library uses them.

export interface Target {
  namespace: string;
  /** The id of a socket is the name of a room that holds it alone: gateways of before `Welcome.version` know no other name for it. */
  rooms: string[];
  except: string[];
  /** Everybody in the namespace: no room is named then. */
  all?: boolean;
  /** Only those of the gateway that hears it. */
  local?: boolean;
  /** Not those of these nodes. */
  without?: number[];
}

export interface Values {
  /** Raw JSON elements, separated by commas. */
  args: string;
  attachments: Buffer[];
}

export interface Emit extends Values {
  to: Target;
  event: string;
  volatile?: boolean;
}

/** Exactly one of its fields is set, beside the trace. */
export interface Command {
  decision?: { socket: string; admit: boolean; message?: string; data?: string };
  ack?: Values & { socket: string; ack: number };
  emit?: Emit;
  join?: { of: Target; rooms: string[] };
  leave?: { of: Target; rooms: string[] };
  disconnect?: { of: Target; close: boolean; drop?: boolean };
  set_data?: { socket: string; data: string };
  ask?: { query: number; emit: Emit; timeout_ms: number };
  fetch?: { query: number; of: Target; timeout_ms: number };
  tell?: Values & { query: number; namespace: string; event: string; timeout_ms: number };
  reply?: Values & { told: number };
  count?: { query: number; namespace: string };
  ended?: { socket: string };
  verdict?: Verdict & { opening: number };
  traceparent?: string;
}

export interface Header {
  name: string;
  value: Buffer;
}

/** Whether a request may open its session. */
export interface Verdict {
  admit: boolean;
  message: string;
  headers: Header[];
  /** The answer to a request that may not, if it is not 403 with the message. */
  status?: number;
  body?: Buffer;
}

/** A request for a session. */
export interface Opening {
  opening: number;
  target: string;
  headers: Header[];
  address: string;
}

export interface Connect {
  socket: string;
  namespace: string;
  auth: Buffer;
  query: string;
  headers: Header[];
  address: string;
  user: string;
  protocol: string;
  session: string;
  transport: string;
  opening: number;
  traceparent: string;
  /** Its client comes back to the socket that it had. */
  returned?: Past;
}

/** The state of a socket before it came here. */
export interface Past {
  rooms: string[];
  data: string;
}

export interface Resume extends Past {
  connect: Connect;
}

export interface Event extends Values {
  socket: string;
  event: string;
  ack: number;
  traceparent: string;
}

export interface Gone {
  socket: string;
  reason: string;
  rooms: string[];
}

export interface Answers {
  query: number;
  answers: Values[];
  missing: number;
}

export interface Found {
  query: number;
  sockets: { socket: string; rooms: string[]; data: string }[];
  incomplete: boolean;
}

export interface Failed {
  command: number;
  message: string;
}

export interface Told extends Values {
  told: number;
  namespace: string;
  event: string;
}

export interface NodeGone {
  node: number;
  life: number;
}

export interface Item {
  redelivered: boolean;
  /** Say `begun` before it is handled. */
  alone: boolean;
  what: "connect" | "resume" | "event" | "gone" | "answers" | "found" | "failed" | "told" | "counted" | "upgraded" | "moved" | "opening" | "node_gone" | "part";
  connect: Connect;
  resume: Resume;
  event: Event;
  gone: Gone;
  answers: Answers;
  found: Found;
  failed: Failed;
  told: Told;
  counted: { query: number; servers: number };
  upgraded: { socket: string; transport: string };
  moved: { socket: string; joined: string[]; left: string[] };
  opening: Opening;
  node_gone: NodeGone;
  part: { socket: string };
}

export interface Welcome {
  resumed: boolean;
  commands: number;
  node: number;
  manners: Manners | null;
  kept_ms: number;
  taken?: number;
  /** `taken` if it is there. */
  _taken?: string;
  silent_ms: number;
}

/** How the gateway treats clients. */
export interface Manners {
  ping_interval_ms: number;
  ping_timeout_ms: number;
  connect_timeout_ms: number;
  max_payload: number;
  path: string;
  transports: string[];
  upgrade_timeout_ms: number;
  cors: Cors | null;
  ping_interval_longest_ms: number;
  /** `null`: an older gateway does not say. */
  namespaces: Namespaces | null;
}

/** Those of the worker's backend; with `all_but`: all but these. */
export interface Namespaces {
  names: string[];
  all_but: boolean;
  recovers: boolean;
}

/** Pages of other origins. */
export interface Cors {
  origins: string[];
  headers: string[];
  max_age_s: number;
}

export interface ToWorker {
  welcome: Welcome | null;
  first: number;
  items: Item[];
  commands: number;
  goodbye: boolean;
  sure: number;
}

export interface FromWorker {
  hello?: { backend: string; instance: string; received: number; weight: number; away: boolean; resumes: boolean; announces: boolean; version: number };
  handled?: number;
  beside?: readonly number[];
  begun?: number;
  overdue?: number;
  asks?: number;
  first?: number;
  commands?: Command[];
  leaving?: boolean;
  openings?: boolean;
}
