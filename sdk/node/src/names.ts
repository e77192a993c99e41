// Names on their way to the gateway: UTF-8 has no place for half of a surrogate pair, and two names with one would be one name.

export const isText = (name: unknown): boolean => String(name).isWellFormed();

/** Those that are text; programs may name rooms by numbers. No socket is in a room with another name. */
export function texts(names: Iterable<unknown>): string[] {
  const found: string[] = [];
  for (const name of names) {
    const text = String(name);
    if (text.isWellFormed()) found.push(text);
  }
  return found;
}

/** Those that a socket may be in. A client may have chosen the others, so nothing is thrown that would end the process. */
export function joinable<N>(names: N[]): N[] {
  return names.filter((name) => {
    if (isText(name)) return true;
    console.error(`sockeye: cannot join room ${JSON.stringify(name)}: its name has half of a surrogate pair, which is no text`);
    return false;
  });
}
