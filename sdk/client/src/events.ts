// Types of events, declared as for Socket.IO: an object whose members are functions. The last
// parameter may be the callback that takes the answer.

// biome-ignore lint/suspicious/noExplicitAny: a map without declarations says nothing of its events
export type Events = { [event: string]: any };

export type NameOf<E extends Events> = keyof E & string;

type ParametersOf<F> = F extends (...args: infer Args) => unknown ? Args : never;

/** What is given with the event: all parameters but the callback for the answer. */
export type ArgsOf<E extends Events, N extends NameOf<E>> =
  ParametersOf<E[N]> extends [...infer Args, (...answer: never[]) => unknown]
    ? Args
    : ParametersOf<E[N]>;

/** What the callback for the answer takes. */
export type AnswerOf<E extends Events, N extends NameOf<E>> =
  ParametersOf<E[N]> extends [...unknown[], (answer: infer Answer) => unknown] ? Answer : unknown;

export type ListenerOf<E extends Events, N extends NameOf<E>> = (
  ...args: ParametersOf<E[N]>
) => void;
