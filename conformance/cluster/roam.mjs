// Stock clients that keep their connection, whatever happens to servers, driven by lines of JSON.
//
//   node roam.mjs --url http://127.0.0.1:3000 --transport polling|upgrade|websocket --clients 4
//
// It tells {"connected":N} whenever that changes. {"do":"ask","count":10}: each client publishes that often and waits for each ack;
// then {"asked":N,"failed":[…]}. {"do":"report"}: {"connects":[…],"errors":{…}}, by client and by what went wrong.
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { io } from "socket.io-client";

const { values: settings } = parseArgs({
  options: { url: { type: "string" }, transport: { type: "string" }, clients: { type: "string" } },
});

const PATIENCE_MS = 20_000;
const transports = { polling: ["polling"], upgrade: ["polling", "websocket"], websocket: ["websocket"] }[settings.transport];
const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const connects = [];
const errors = {};
const connected = new Set();

function note(error) {
  errors[error] = (errors[error] ?? 0) + 1;
}

const clients = Array.from({ length: Number(settings.clients) }, (_, at) => {
  connects[at] = 0;
  const socket = io(settings.url, { transports, forceNew: true, reconnectionDelay: 200, reconnectionDelayMax: 1000 });
  socket.on("connect", () => {
    connects[at] += 1;
    socket.emit("join", "roam");
    connected.add(at);
    tell({ connected: connected.size });
  });
  socket.on("disconnect", (reason, details) => {
    connected.delete(at);
    note(`${reason} ${details?.context?.responseText ?? ""}`.trim());
    tell({ connected: connected.size });
  });
  socket.on("connect_error", (error) => note(`${error.message} ${error.context?.responseText ?? ""}`.trim()));
  return socket;
});

async function ask(count) {
  const failed = [];
  const all = clients.map(async (socket, at) => {
    for (let n = 0; n < count; n += 1) {
      try {
        await socket.timeout(PATIENCE_MS).emitWithAck("n", [at, n]);
      } catch (error) {
        failed.push(`client ${at}: ${error.message}`);
      }
    }
  });
  await Promise.all(all);
  tell({ asked: count * clients.length, failed });
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.do === "ask") ask(command.count);
  else tell({ connects, errors });
}
process.exit(0);
