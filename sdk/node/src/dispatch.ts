// An event's way through a socket's middleware and listeners: as Socket.IO does it, but the event counts as handled when what they promise has settled.
import { AsyncResource } from "node:async_hooks";
import { types } from "node:util";
import type { Packet } from "./parser.js";

type Listener = (...args: unknown[]) => unknown;
type Event = [string, ...unknown[]];

/** What is used of Socket.IO's socket. */
export interface Dispatcher {
  connected: boolean;
  fns: ((event: Event, next: (error?: Error) => void) => unknown)[];
  _anyListeners?: Listener[];
  ack(id: number): Listener;
  rawListeners(event: string): Function[];
  _onerror(error: Error): void;
}

/** Takes the place of the socket's `onevent`. */
export function onevent(this: Dispatcher, packet: Packet): void {
  const { link, number = 0 } = packet;
  if (!link?.isInDoubt()) return dispatch.call(this, packet);
  // Its sockets may be others' by now.
  link.hold(number);
  link.whenSure(
    AsyncResource.bind(() => {
      link.release(number);
      dispatch.call(this, packet);
    }),
  );
}

function dispatch(this: Dispatcher, { link, number = 0, id, data }: Packet): void {
  const event: Event = data ?? [];
  if (id !== undefined && id !== null) event.push(this.ack(id));
  const call = (listener: Function, args: unknown[]) => {
    const result: unknown = listener.apply(this, args);
    if (types.isPromise(result)) link?.watch(number, event[0], result);
  };
  if (this._anyListeners) for (const listener of this._anyListeners.slice()) call(listener, event);
  const emit = (error?: Error) => {
    if (error) return this._onerror(error);
    if (!this.connected) return;
    const [name, ...args] = event;
    for (const listener of this.rawListeners(name)) call(listener, args);
  };
  // Socket.IO waits for a tick, because middleware may call `next` at once.
  if (this.fns.length === 0) return emit();
  const fns = this.fns.slice();
  // Middleware may call `next` from anywhere: listeners belong to the event all the same.
  const last = AsyncResource.bind(emit);
  const next = (at: number, error?: Error) => {
    if (error || at === fns.length) process.nextTick(last, error);
    else call(fns[at], [event, (error?: Error) => next(at + 1, error)]);
  };
  next(0);
}
