// A worker process for tests: `node kitchen.mjs GATEWAY KEY`.
import { eventInfo, Server } from "@sockeye/server";

const [gateway, key] = process.argv.slice(2);
const io = new Server({ gateway, key, backend: "kitchen" });
io.use((socket, next) => {
  const refused = socket.handshake.auth.bad && Object.assign(new Error("not you"), { data: { code: 7 } });
  setTimeout(() => next(refused || undefined), 5);
});
io.on("connection", (socket) => {
  if (!socket.recovered) {
    socket.join("kitchen");
    socket.data.since = "start";
    socket.emit("hello", socket.id);
  }
  socket.on("count", (...args) => args[1](args[0], eventInfo().redelivered));
  if (process.env.CRASH) socket.on("deadly", () => process.exit(9));
  socket.on("echo", (value, done) => done(value));
  socket.on("news", (value) => socket.to("kitchen").emit("news", value));
  socket.on("survey", async (done) => done(await io.timeout(20_000).to("kitchen").emitWithAck("question")));
  socket.on("who", async (done) => done((await io.fetchSockets()).map(({ id, data }) => [id, data])));
});
process.on("SIGTERM", () => io.close().then(() => process.exit(0)));
await io.ready;
console.log("ready");
