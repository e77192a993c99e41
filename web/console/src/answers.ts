// The answers of the node's calls, as docs/server-api.md describes them.

import type { AskedNode } from "./everywhere.ts";

export interface Login {
  name: string;
  /** Empty: all of them. */
  scopes: string[];
  /** Empty: all of them. */
  namespaces: string[];
  /** Told once, by the login itself. */
  csrf?: string;
}

export interface Condition {
  name: string;
  severity: string;
  sentence: string;
  docs: string;
}

/** One second of the node's life. */
export interface Point {
  t: number;
  sessions: number;
  connections: number;
  memory_bytes: number | null;
  cpu: number;
  messages_in: number;
  deliveries: number;
  rejected: number;
  connects: number;
  ends: number;
  turn_p99_ms: number | null;
  /** Above all bounds: the figure is the last one. */
  turn_p99_over: boolean;
  message_p99_ms: number | null;
  message_p99_over: boolean;
}

export interface Overview {
  node: { number: number; name: string; version: string; state: string; started: number };
  now_ms: number;
  limits: { connections: number | null; memory_bytes: number | null };
  health: { ok: boolean; sentence: string; conditions: Condition[] };
  refusals: { what: string; reason: string; times: number }[];
  points: Point[];
}

export interface NodeLine {
  number: number;
  name: string;
  life: number;
  version: string;
  relay: string | null;
  started: number;
  age_seconds: number;
  sessions: number;
  state: string;
  /** Sessions that are still to go to other nodes. */
  leaving: number;
  /** Another process takes over. */
  upgrading: boolean;
}

/** Another node, as a node hears it. */
export interface OtherNode {
  to: number;
  silent_ms: number | null;
  received: number;
  gaps: number;
  lost: number;
  relayed: number;
}

export interface EngineLink {
  name: string;
  up: boolean;
  round_trip_ms: number | null;
  waiting_bytes: number;
  repairs: number;
  lost: number;
}

/** Who a node talks to. */
export interface NodeLinks {
  node: number;
  cpu: number | null;
  cores: number;
  connections: number;
  messages_in: number;
  deliveries: number;
  rejected: number;
  memory_bytes: number | null;
  memory_limit_bytes: number | null;
  /** Nodes of earlier versions do not tell. */
  upgrades?: { done: number; failed: number; refused: number; pause_ms: number | null };
  engine: EngineLink | null;
  others: OtherNode[];
  backends: { name: string; workers: number; links_of_shards: number }[];
  bridges: { name: string; waiting_bytes: number }[];
}

export interface LinksOfNodes {
  links: NodeLinks[];
  /** When the nodes were asked. */
  at_ms: number;
  complete: boolean;
  nodes: AskedNode[];
}

export interface RoomHere {
  namespace: string;
  room: string;
  members: number;
  /** Of a sample, where the busiest were asked for. */
  events_per_second?: number | null;
  deliveries_per_second?: number | null;
  /** Where the slowest were asked for. */
  members_behind?: number | null;
  waiting_bytes?: number | null;
  /** Of all nodes: those that it has members at. */
  nodes?: number[];
}

export interface RoomsHere {
  /** In the order that was asked for. */
  rooms: RoomHere[];
  more: boolean;
  complete: boolean;
  nodes?: AskedNode[];
}

export interface RoomsPage {
  rooms: { room: string; sockets: number }[];
  next?: string | null;
  complete: boolean;
}

export interface SocketsPage {
  sockets: { id: string; rooms: string[]; data: unknown }[];
  next?: string | null;
  complete: boolean;
}

export interface Members {
  count: number;
  members?: { id?: string | null; user?: string | null; info?: unknown }[] | null;
}

export interface SocketHere {
  id: string;
  namespace: string;
  user: string | null;
  since_ms: number;
  expires: number | null;
  rooms: string[];
  room_count: number;
  acks_owed: number;
  data_bytes: number;
  recoverable: boolean;
  recovered: boolean;
  worker: { backend: string; instance: string } | null;
}

/** A connection as the kernel sees it. */
export interface Kernel {
  rtt_us: number;
  rtt_var_us: number;
  retransmits: number;
  timeouts: number;
  unacked_bytes: number;
  unsent_bytes: number;
}

export interface SessionHere {
  /** Cut: the whole of it is the client's secret. */
  id: string;
  protocol: string;
  engineio: number | null;
  parser: string;
  transport: string;
  upgrading: boolean;
  compressed: boolean;
  relayed: boolean;
  address: string;
  agent: string | null;
  claims: { name: string; kind: string }[];
  kernel: Kernel | null;
  waiting_bytes: number;
  input_bytes: number;
  silent_ms: number | null;
  round_trip_ms: number | null;
  rejections: number;
  rates: { scope: string; used: number; of: number }[];
  sockets: SocketHere[];
  socket_count: number;
  /** In answers of all nodes. */
  node?: number;
}

export interface SessionsHere {
  sessions: SessionHere[];
  matched: number;
  complete: boolean;
  nodes?: AskedNode[];
}

export interface End {
  at_ms: number;
  session: string;
  reason: string;
  address: string;
  protocol: string;
  transport: string;
  socket: string | null;
  namespace: string | null;
  user: string | null;
  waiting_bytes: number;
  silent_ms: number | null;
  rejections: number;
  /** In answers of all nodes. */
  node?: number;
}

export interface Ends {
  ends: End[];
  complete: boolean;
  nodes?: AskedNode[];
}

export interface WorkerHere {
  instance: string;
  state: string;
  sockets: number;
  under_way: number;
  window_ratio: number;
  shard: number | null;
  waiting: number;
  handled: number;
  handled_per_second: number;
  p99_ms: number | null;
  p99_over: boolean;
}

export interface FailureHere {
  at_ms: number;
  what: string;
  detail: string | null;
  said: SaidHere[];
}

/** A request, an answer or a record. */
export interface SaidHere {
  part: string;
  names: string | null;
  bytes: number;
  /** The beginning, where it was asked for. */
  body: string | null;
}

export interface LastFailures {
  failures: FailureHere[];
}

export interface BackendHere {
  name: string;
  kind: string | null;
  well: boolean;
  sockets: number;
  parked: number;
  kept_bytes: number;
  queue_ratio: number;
  events: number;
  handled_per_second: number;
  p99_ms: number | null;
  p99_over: boolean;
  redelivered: number;
  retried: number;
  calls_refused: number;
  poison: number;
  alone: number;
  refused: number;
  workers_lost: number;
  dead_letters: number;
  workers: WorkerHere[];
  failures: FailureHere[];
}

export interface BridgeHere {
  produced: number;
  failed: number;
  refused: number;
  retried: number;
  waiting_bytes: number;
  handed: number;
  partial: number;
  repeated: number;
  dead: number;
  lost: number;
  lag: number;
  failures: FailureHere[];
}

export interface BackendsHere {
  backends: BackendHere[];
  kafka: BridgeHere | null;
  nats: BridgeHere | null;
  complete: boolean;
}

export interface Setting {
  key: string;
  value: unknown;
  source: string;
}

export interface NearLimit {
  key: string;
  unit: string;
  used: number;
  limit: number;
  of_shard: boolean;
}

export interface Configuration {
  settings: Setting[];
  limits: NearLimit[];
  reload: { live?: string[]; restart?: string[]; problems?: string[] };
}

export interface Action {
  at_ms: number;
  key: string;
  /** By a person, and no program. */
  console: boolean;
  what: string;
  namespace?: string;
  of: string;
  outcome: string;
}

/** What a test client heard. */
export interface HeardLine {
  kind: "event";
  at_ms: number;
  event: string;
  args: string;
  bytes: number;
  attachments: number;
  asks: boolean;
}

/** A word about the test client itself. */
export type HeardWord =
  | { kind: "begin"; socket: string }
  | { kind: "joined"; room: string }
  | { kind: "dropped"; events: number }
  | { kind: "alive" }
  | { kind: "end"; why: string };

/** One thing that passed. */
export interface TraceLine {
  kind: "line";
  at_ms: number;
  node: number;
  shard: number;
  direction: "in" | "out";
  what: string;
  session?: string;
  socket?: string;
  user?: string;
  namespace?: string;
  event?: string;
  rooms?: string[];
  bytes?: number;
  args?: string;
  rule?: string;
  decision: string;
  sockets?: number;
  shards?: number;
  nodes?: number;
  by?: string;
  after_ms?: number;
  code?: string;
  why?: string;
  waiting_bytes?: number;
  transport?: string;
}

/** A word about the trace itself. */
export type TraceWord =
  | { kind: "begin"; of: string; payload: boolean; until_ms: number }
  | { kind: "node"; node: number; state: string; why?: string }
  | { kind: "dropped"; node: number; lines: number }
  | { kind: "alive" }
  | { kind: "end"; why: string };
