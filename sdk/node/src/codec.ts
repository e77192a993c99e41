// Arguments of events as the protocol has them: raw JSON elements separated by commas, and attachments that placeholders stand for.
import type { Values } from "./messages.js";

const NONE: Buffer[] = [];

const isBytes = (value: unknown): value is ArrayBuffer | ArrayBufferView => value instanceof ArrayBuffer || ArrayBuffer.isView(value);

function hasBytes(value: unknown): boolean {
  if (value === null || typeof value !== "object") return false;
  if (isBytes(value)) return true;
  if (Array.isArray(value)) return value.some(hasBytes);
  const { toJSON } = value as { toJSON?: () => unknown };
  if (typeof toJSON === "function") return hasBytes(toJSON.call(value));
  for (const name in value) if (Object.hasOwn(value, name) && hasBytes((value as Record<string, unknown>)[name])) return true;
  return false;
}

function bufferOf(value: ArrayBuffer | ArrayBufferView): Buffer {
  return value instanceof ArrayBuffer ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

/** Puts placeholders where bytes are. */
function extract(value: unknown, attachments: Buffer[]): unknown {
  if (value === null || typeof value !== "object") return value;
  if (isBytes(value)) {
    attachments.push(bufferOf(value));
    return { _placeholder: true, num: attachments.length - 1 };
  }
  if (Array.isArray(value)) return value.map((member) => extract(member, attachments));
  const { toJSON } = value as { toJSON?: () => unknown };
  if (typeof toJSON === "function") return extract(toJSON.call(value), attachments);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, extract(member, attachments)]));
}

export function encode(values: unknown[]): Values {
  // Most have one value, and a text holds no bytes.
  if (values.length === 1 && typeof values[0] === "string") return { args: JSON.stringify(values[0]), attachments: NONE };
  const attachments = hasBytes(values) ? ([] as Buffer[]) : NONE;
  const text = JSON.stringify(attachments === NONE ? values : extract(values, attachments));
  return { args: text.slice(1, -1), attachments };
}

function restore(value: unknown, attachments: Buffer[]): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((member) => restore(member, attachments));
  const object = value as Record<string, unknown>;
  if (object._placeholder === true) return attachments[object.num as number];
  for (const name of Object.keys(object)) object[name] = restore(object[name], attachments);
  return object;
}

/** The reverse. */
export function decode({ args, attachments }: Values): unknown[] {
  const values = JSON.parse(`[${args}]`) as unknown[];
  return attachments.length > 0 ? (restore(values, attachments) as unknown[]) : values;
}

/** The same behind the event's name. */
export function decodeEvent(event: string, said: Values): [string, ...unknown[]] {
  const values = decode(said);
  values.unshift(event);
  return values as [string, ...unknown[]];
}
