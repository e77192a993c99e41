// The trace that is being worked for: W3C Trace Context. Nothing is paid for it until the first trace comes.
import { AsyncLocalStorage } from "node:async_hooks";

const current = new AsyncLocalStorage<string>();

/** For requests and spans of your own: the `traceparent` of the event that is being handled; `undefined` without a trace. */
export function traceparent(): string | undefined {
  return current.getStore() || undefined;
}

/** What is done by this, now and later, belongs to the trace; empty: to none. */
export function within(trace: string, act: () => void): void {
  if (trace === (current.getStore() ?? "")) act();
  else current.run(trace, act);
}
