// Writing and reading Socket.IO packets as Engine.IO text, by hand: the suites must not trust a codec.

export const SEPARATOR = "\x1e";

const prefix = (namespace) => (namespace === "/" ? "" : `${namespace},`);

export function connect(namespace = "/", auth) {
  return `40${prefix(namespace)}${auth === undefined ? "" : JSON.stringify(auth)}`;
}

export const disconnect = (namespace = "/") => `41${prefix(namespace)}`;

export function event(namespace, args, ackId = "") {
  return `42${prefix(namespace)}${ackId}${JSON.stringify(args)}`;
}

export function ack(namespace, ackId, args) {
  return `43${prefix(namespace)}${ackId}${JSON.stringify(args)}`;
}

export function binaryEvent(namespace, attachments, args, ackId = "") {
  return `45${attachments}-${prefix(namespace)}${ackId}${JSON.stringify(args)}`;
}

export const placeholder = (num) => ({ _placeholder: true, num });

/**
 * Suites run side by side against one server, so a broadcast to everybody reaches strangers. Its
 * event is named with this prefix, and raw sessions overhear it.
 */
const EVERYONE = "everyone-";

export const isStray = (packet) => typeof packet === "string" && packet.startsWith(`42/lab,["${EVERYONE}`);

const SHAPE = /^4([0-6])(?:(\d+)-)?(?:(\/[^,]*)(?:,|$))?(\d+)?([[{][^]*)?$/;

/** Splits a text packet into { type, attachments, namespace, id, data }; throws on anything else. */
export function read(text) {
  const match = typeof text === "string" ? SHAPE.exec(text) : null;
  if (!match) throw new Error(`not a Socket.IO packet: ${JSON.stringify(text)}`);
  const [, type, attachments, namespace = "/", id, json] = match;
  return {
    type: Number(type),
    attachments: attachments === undefined ? 0 : Number(attachments),
    namespace,
    id: id === undefined ? undefined : Number(id),
    data: json === undefined ? undefined : JSON.parse(json),
  };
}
