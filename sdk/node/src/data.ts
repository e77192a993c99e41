// What other workers get of a socket's data: JSON.

/** Members of its data that had no JSON. A timer leads to all others of its length: objects are not tried again. */
export interface Owner {
  unsaid?: Set<string>;
}

let warned = false;

/** Null: there is no JSON of it. Undefined: its `toJSON` gives nothing. */
function tried(value: unknown): { json: string | undefined } | null {
  try {
    return { json: JSON.stringify(value) as string | undefined };
  } catch {
    return null;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => value !== null && typeof value === "object";

/** What is tried of the data: all of it, or what is not known to have no JSON. */
function part(data: unknown, { unsaid }: Owner): unknown {
  if (!unsaid || !isObject(data) || Array.isArray(data)) return data;
  return Object.fromEntries(Object.entries(data).filter(([name, member]) => !unsaid.has(name) || !(isObject(member) || typeof member === "bigint")));
}

/** The data as JSON, without members that cannot be JSON: a timer, a BigInt, what contains itself. */
export function jsonOf(data: unknown, owner: Owner): string | undefined {
  const rest = part(data, owner);
  const whole = tried(rest);
  if (whole) return whole.json;
  const members = isObject(rest) && !Array.isArray(rest) ? Object.entries(rest) : [];
  const bad = members.filter(([, member]) => !tried(member)).map(([name]) => name);
  warn(bad);
  if (bad.length === 0) return undefined;
  owner.unsaid = new Set([...(owner.unsaid ?? []), ...bad]);
  return tried(part(data, owner))?.json;
}

/** A program gives each socket the same members: they are named once. */
function warn(members: string[]): void {
  if (warned) return;
  warned = true;
  const what = members.length > 0 ? members.map((name) => `socket.data.${name}`).join(", ") : "socket.data";
  process.emitWarning(`cannot hand on ${what}: it is no JSON (a timer, a BigInt, or what contains itself); other workers do not get it`, "SockeyeWarning");
}
