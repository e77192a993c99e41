// A worker process for tests: `node ledger.mjs GATEWAY KEY BACKEND FILE`. It writes down each event before it answers, so that its own
// death costs no line.
import { openSync, writeSync } from "node:fs";
import { eventInfo, Server } from "@sockeye/server";

const [gateway, key, backend, file] = process.argv.slice(2);
const ledger = openSync(file, "a");
const io = new Server({ gateway, key, backend });
let left = 0;
for (const namespace of [io, io.of("/slow")]) {
  namespace.on("connection", (socket) => {
    socket.on("count", (...args) => {
      const [client, number, done] = args;
      writeSync(ledger, `${client} ${number} ${Number(eventInfo().redelivered)}\n`);
      done(number);
    });
    socket.on("ask", (what, done) => socket.timeout(20_000).emit("question", what, (error, answer) => done(error ? "none" : answer)));
    socket.on("left", (done) => done(left));
    socket.on("disconnect", () => left++);
    socket.on("slow", (client, number, done) => setTimeout(done, 2_000, number));
  });
}
process.on("SIGTERM", () => io.close().then(() => process.exit(0)));
process.on("SIGUSR2", () => {
  global.gc?.();
  const { heapUsed, rss } = process.memoryUsage();
  console.log(`memory ${heapUsed} ${rss}`);
});
await io.ready;
console.log("ready");
