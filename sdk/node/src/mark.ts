// Whether the event that is being handled came before. The mark goes where the event goes, as a trace does.
import { AsyncLocalStorage } from "node:async_hooks";

export interface EventInfo {
  /** Another worker, or an earlier run of this one, may have handled this event: its effects may be there already. */
  readonly redelivered: boolean;
}

const FRESH: EventInfo = Object.freeze({ redelivered: false });
const REPEATED: EventInfo = Object.freeze({ redelivered: true });
const current = new AsyncLocalStorage<EventInfo>();

/**
 * Tells about the event that is being handled: in `socket.use`, in listeners, and in what they await, call or start. A program that hands an event on,
 * such as by a queue of its own, hands this on with it.
 */
export function eventInfo(): EventInfo {
  return current.getStore() ?? FRESH;
}

/** What is done by this, now and later, is of an event that came before, or of none. */
export function marked(redelivered: boolean, act: () => void): void {
  if (redelivered === eventInfo().redelivered) act();
  else current.run(redelivered ? REPEATED : FRESH, act);
}
