// What stands behind a worker: the adapters of its namespaces.

import type { Packet } from "./parser.js";

/** How answers of several gateways become one. */
export interface Sum<A> {
  missing: A;
  add(one: A, other: A): A;
}

/** What the adapters of namespaces know of their sockets. */
export interface Local {
  /** To be told that no answer will come; `undefined`: nobody waits for one. */
  waiting(namespace: string, id: string, ack: number): ((error: Error) => void) | undefined;
  /** The socket gets a packet of its client; `false`: there is no such socket. */
  receive(namespace: string, id: string, packet: Packet): boolean;
  /** The socket's data, to be sent if it changed; `undefined`: there is no such socket. */
  data(namespace: string, id: string): unknown;
  /** Rooms that the socket has by now. */
  follow(namespace: string, id: string, rooms: string[]): void;
  /** Others moved the socket into rooms and out of them. */
  moved(namespace: string, id: string, joined: string[], left: string[]): void;
  /** The socket's client said what is no packet. */
  failed(namespace: string, id: string, error: Error): void;
  /** Another server says something: its name, arguments, and perhaps a function that answers. */
  told(namespace: string, event: unknown[]): void;
  /** Another node of the cluster is gone. */
  nodeGone(node: number): void;
}
