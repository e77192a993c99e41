// Arguments of events as the protocol has them: raw JSON elements separated by commas, and attachments that placeholders stand for.

const isBytes = (value) => value instanceof Uint8Array || value instanceof ArrayBuffer;

/** @returns {{ args: Buffer, attachments: Buffer[] }} */
export function encode(values) {
  const attachments = [];
  const take = (value) => {
    if (isBytes(value)) {
      const bytes = value instanceof ArrayBuffer ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      attachments.push(bytes);
      return { _placeholder: true, num: attachments.length - 1 };
    }
    if (Array.isArray(value)) return value.map(take);
    if (value && typeof value === "object" && typeof value.toJSON !== "function") {
      return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, take(member)]));
    }
    return value;
  };
  const text = JSON.stringify(values.map(take));
  return { args: Buffer.from(text.slice(1, -1)), attachments };
}

/** The reverse. */
export function decode(args, attachments = []) {
  const values = JSON.parse(`[${args.toString()}]`);
  if (attachments.length === 0) return values;
  const give = (value) => {
    if (Array.isArray(value)) return value.map(give);
    if (value && typeof value === "object") {
      if (value._placeholder === true) return attachments[value.num];
      return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, give(member)]));
    }
    return value;
  };
  return values.map(give);
}
