// A worker process for tests: `node crew.mjs GATEWAY KEY FILE [HANDLER_TIMEOUT]`. It writes down what its handlers do, at once.
import { openSync, writeSync } from "node:fs";
import { eventInfo, Server } from "@sockeye/server";

const [gateway, key, file, timeout] = process.argv.slice(2);
const ledger = openSync(file, "a");
const write = (...words) => writeSync(ledger, `${words.join(" ")} ${Number(eventInfo().redelivered)}\n`);
const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
const io = new Server({ gateway, key, backend: "kitchen", handlerTimeout: timeout && Number(timeout) });
io.on("connection", (socket) => {
  if (process.env.MIDDLEWARE) {
    socket.use(([name], next) => {
      if (name === "slow") block(1_800);
      next();
    });
  }
  socket.on("note", (n) => write("note", n));
  socket.on("told", (n, done) => (write("told", n), done()));
  socket.on("never", (n) => (write("never", n), new Promise(() => {})));
  socket.on("brief", async (n) => {
    write("brief", n);
    await new Promise((resolve) => setTimeout(resolve, 20));
    write("after", n);
  });
  socket.on("throws", (n) => {
    write("throws", n);
    throw new Error(`${n}`);
  });
  socket.on("blocks", (n) => (write("blocks", n), block(1_800)));
  for (const name of ["hangs", "slow", "leaves", "asks"]) {
    socket.on(name, (n) => {
      if (name === "leaves") io.close();
      if (name === "asks") io.engine.use((_, __, next) => next());
      write(name, n);
      block();
    });
  }
  socket.on("deadly", () => process.exit(9));
  socket.on("delayed", async () => setTimeout(() => process.exit(9), 20));
});
if (process.env.SURVIVES) process.on("uncaughtException", ({ message }) => write("caught", message));
process.on("SIGTERM", () => io.close().then(() => process.exit(0)));
await io.ready;
console.log("ready");
