// A live trace as an HTTP archive (HAR 1.2), for the tools that read those: each socket is a WebSocket, each line a message of it.

import type { TraceLine } from "./answers.ts";

const NOTHING = {
  httpVersion: "HTTP/1.1",
  cookies: [],
  headers: [],
  headersSize: -1,
  bodySize: -1,
};

/** Chromium's network panel shows messages that are written so. */
interface Message {
  type: "send" | "receive";
  time: number;
  opcode: 1;
  data: string;
}

function message(line: TraceLine): Message {
  const { event, args, decision, why, rule } = line;
  const type = line.direction === "in" ? "send" : "receive";
  const data = JSON.stringify({ what: line.what, event, args, decision, why, rule });
  return { type, time: line.at_ms / 1000, opcode: 1, data };
}

function entry(name: string, lines: TraceLine[]): object {
  const [first, last] = [lines[0]?.at_ms ?? 0, lines.at(-1)?.at_ms ?? 0];
  const namespace = lines[0]?.namespace ?? "/";
  const url = `ws://sockeye${namespace}?of=${encodeURIComponent(name)}`;
  const content = { size: 0, mimeType: "x-unknown" };
  return {
    startedDateTime: new Date(first).toISOString(),
    time: last - first,
    request: { method: "GET", url, queryString: [], ...NOTHING },
    response: { status: 101, statusText: "", content, redirectURL: "", ...NOTHING },
    cache: {},
    timings: { send: 0, wait: 0, receive: last - first },
    _resourceType: "websocket",
    _webSocketMessages: lines.map(message),
  };
}

/** Lines, the oldest first. */
export function archive(lines: TraceLine[]): string {
  const sockets = new Map<string, TraceLine[]>();
  for (const line of lines) {
    const name = line.socket ?? line.session ?? "several";
    const known = sockets.get(name);
    if (known) known.push(line);
    else sockets.set(name, [line]);
  }
  const entries = [...sockets].map(([name, all]) => entry(name, all));
  const creator = { name: "Sockeye", version: "1" };
  return JSON.stringify({ log: { version: "1.2", creator, entries } });
}
