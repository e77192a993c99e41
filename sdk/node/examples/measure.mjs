// What benchmarks/workers measures: `node measure.mjs GATEWAY KEY` as a worker of the backend "kitchen", or `node measure.mjs PORT` as
// Socket.IO's own server with the same handlers; on Bun by its own engine.
const [place, key] = process.argv.slice(2);
const { Server } = await import(key ? "@sockeye/server" : "socket.io");
const io = key ? new Server({ gateway: place, key, backend: "kitchen" }) : process.versions.bun ? new Server() : new Server(Number(place));
if (!key && process.versions.bun) {
  const { Server: Engine } = await import("@socket.io/bun-engine");
  const engine = new Engine({ path: "/socket.io/" });
  io.bind(engine);
  Bun.serve({ port: Number(place), ...engine.handler() });
}
io.on("connection", (socket) => {
  socket.on("echo", (value, done) => done(value));
  socket.on("join", (room, done) => {
    socket.join(room);
    done();
  });
  socket.on("push", (value) => io.to("room").emit("push", value));
  // To the room that this socket has joined beside its own.
  socket.on("tell", (value) => {
    for (const room of socket.rooms) if (room !== socket.id) io.to(room).emit("tell", value);
  });
});
