// A worker for tests of other runtimes: `runtime.mjs GATEWAY KEY`. It uses what a program uses: acks, rooms, attachments, data, middleware, promises.
import process from "node:process";
import { Server, eventInfo } from "@sockeye/server";

const [gateway, key] = process.argv.slice(2);
const io = new Server({ gateway, key, backend: "kitchen" });
io.use((socket, next) => next(socket.handshake.auth.bad ? new Error("not you") : undefined));
io.on("connection", (socket) => {
  socket.on("echo", (...args) => args.at(-1)(...args.slice(0, -1)));
  socket.on("late", async (value, done) => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    done(value, eventInfo().redelivered);
  });
  socket.on("join", async (room, done) => {
    await socket.join(room);
    socket.data.room = room;
    done();
  });
  socket.on("tell", (room, ...args) => io.to(room).emit("told", ...args));
  socket.on("who", async (done) => done((await io.fetchSockets()).map(({ data }) => data)));
  socket.on("ask", async (done) => done(await io.timeout(20_000).emitWithAck("asked", 1)));
  socket.on("kick", () => socket.disconnect(true));
});
process.on("SIGTERM", () => io.close().then(() => process.exit(0)));
await io.ready;
console.log("ready");
