import { EventEmitter } from "node:events";

export interface Options {
  /** Address of `workers.listen`. */
  gateway: string;
  /** A key of the backend: `sockeye api-key NAME`. */
  key: string;
  /** Name of the table `[backends.NAME]`. */
  backend: string;
  /** Share of the sockets, compared with other workers. */
  weight?: number;
}

export type Rooms = string | string[];
export type Next = (error?: Error & { data?: unknown }) => void;

export interface Operator {
  to(rooms: Rooms): Operator;
  in(rooms: Rooms): Operator;
  except(rooms: Rooms): Operator;
  timeout(ms: number): Operator;
  emit(event: string, ...args: unknown[]): boolean;
  emitWithAck(event: string, ...args: unknown[]): Promise<unknown[]>;
  fetchSockets(): Promise<RemoteSocket[]>;
  socketsJoin(rooms: Rooms): void;
  socketsLeave(rooms: Rooms): void;
  disconnectSockets(close?: boolean): void;
}

export interface RemoteSocket {
  id: string;
  rooms: Set<string>;
  data: any;
  emit(event: string, ...args: unknown[]): boolean;
  join(rooms: Rooms): void;
  leave(rooms: Rooms): void;
  disconnect(close?: boolean): void;
}

export interface Namespace extends Operator {
  name: string;
  sockets: Map<string, Socket>;
  readonly volatile: Operator;
  on(event: "connection", listener: (socket: Socket) => void): this;
  use(middleware: (socket: Socket, next: Next) => void): this;
}

export class Socket extends EventEmitter {
  readonly id: string;
  readonly nsp: Namespace;
  readonly handshake: { auth: any; query: Record<string, string>; headers: Record<string, string>; address: string };
  /** User of the client's token. */
  readonly user?: string;
  readonly rooms: Set<string>;
  data: any;
  /** Another worker had it before. */
  readonly recovered: boolean;
  readonly connected: boolean;
  /** Another worker may have handled the event that is being handled. */
  readonly redelivered: boolean;
  readonly broadcast: Operator;
  readonly volatile: Operator;
  emitWithAck(event: string, ...args: unknown[]): Promise<unknown>;
  join(rooms: Rooms): void;
  leave(room: string): void;
  to(rooms: Rooms): Operator;
  in(rooms: Rooms): Operator;
  use(middleware: (event: unknown[], next: Next) => void): this;
  disconnect(close?: boolean): this;
}

export interface Server extends Operator {
  on(event: "connection", listener: (socket: Socket) => void): Namespace;
  use(middleware: (socket: Socket, next: Next) => void): Namespace;
}

export class Server {
  constructor(options: Options);
  /** The gateway has welcomed this worker; rejects when it refuses the key. */
  readonly ready: Promise<void>;
  readonly sockets: Namespace;
  of(name: string): Namespace;
  /** Hands the sockets over; resolves when nothing is left. */
  close(): Promise<void>;
}
