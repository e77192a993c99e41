// Stock Socket.IO clients that a test drives: a line of JSON for each order on standard input, and for each word on standard output.
// Bytes are {"bytes": base64} in both.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(new URL("../../../web/package.json", import.meta.url));
const { io } = require("socket.io-client");

const guests = new Map();

function take(value) {
  if (value === null || typeof value !== "object") return value;
  if (typeof value.bytes === "string") return Buffer.from(value.bytes, "base64");
  if (Array.isArray(value)) return value.map(take);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, take(member)]));
}

function give(value) {
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return { bytes: Buffer.from(value).toString("base64") };
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(give);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, give(member)]));
}

const say = (word) => process.stdout.write(`${JSON.stringify(give(word))}\n`);

const orders = {
  connect({ order, guest, url, auth, query, headers }) {
    const socket = io(url, { auth, query, extraHeaders: headers, transports: ["websocket"], reconnection: false, forceNew: true });
    guests.set(guest, socket);
    let answered = false;
    const answer = (word) => {
      if (!answered) say({ order, ...word });
      answered = true;
    };
    socket.on("connect", () => answer({ answer: [socket.id] }));
    socket.on("connect_error", (error) => answer({ refused: { message: error.message, data: error.data ?? null } }));
    socket.on("disconnect", (reason) => say({ guest, lost: reason }));
    socket.onAny((event, ...args) => {
      if (typeof args.at(-1) === "function") {
        const ack = args.pop();
        // `silence` is a question without an answer.
        if (event !== "silence") ack(socket.id, ...args);
      } else say({ guest, event, args });
    });
  },
  emit({ order, guest, event, args }) {
    guests.get(guest).emit(event, ...take(args));
    say({ order, answer: [] });
  },
  call({ order, guest, event, args }) {
    guests.get(guest).emit(event, ...take(args), (...answer) => say({ order, answer }));
  },
  leave({ order, guest }) {
    guests.get(guest).disconnect();
    say({ order, answer: [] });
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  orders[order.do](order);
}
process.exit(0);
