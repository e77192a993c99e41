// What benchmarks/workers measures: `node measure.mjs GATEWAY KEY` as a worker of the backend "kitchen", or `node measure.mjs PORT` as
// Socket.IO's own server with the same handlers.
const [place, key] = process.argv.slice(2);
const { Server } = await import(key ? "@sockeye/server" : "socket.io");
const io = key ? new Server({ gateway: place, key, backend: "kitchen" }) : new Server(Number(place));
io.on("connection", (socket) => {
  socket.on("echo", (value, done) => done(value));
  socket.on("join", (room, done) => {
    socket.join(room);
    done();
  });
  socket.on("push", (value) => io.to("room").emit("push", value));
});
