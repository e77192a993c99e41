// Which events may have been handled before.

export interface EventInfo {
  /** Another worker, or an earlier run of this one, may have handled this event: its effects may be there already. */
  redelivered: boolean;
}

const KEPT = 256;
/** Names and arguments of the last redelivered events. Socket.IO puts the callback for the ack behind them. */
const marked: unknown[][] = [];

export function mark(event: unknown[]): void {
  marked.push(event);
  if (marked.length > KEPT) marked.shift();
}

/**
 * Tells about an event by its arguments, with or without its name: `socket.use((event) => eventInfo(event))`, or
 * `socket.on("order", (...args) => eventInfo(args))`.
 */
export function eventInfo(args: readonly unknown[]): EventInfo {
  const same = (event: unknown[]) => {
    const skip = event.length - args.length;
    return (skip === 0 || skip === 1) && args.every((value, at) => value === event[at + skip]);
  };
  return { redelivered: marked.some(same) };
}
