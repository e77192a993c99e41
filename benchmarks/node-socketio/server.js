// Socket.IO on Node as npm installs it (engine: ws), as the peer of the benchmark suite and of the
// scenarios. With POLLING=1 it also offers long-polling, with MAX_REQUESTS=n it ends a connection
// behind its n-th answer.
// Prints one JSON line with its port and pid, then serves until it is told to stop.
"use strict";

const { createServer } = require("node:http");
const { Server } = require("socket.io");

const ROOM = "bench";

const http = createServer();
http.maxRequestsPerSocket = Number(process.env.MAX_REQUESTS || 0);
const io = new Server(http, {
  transports: process.env.POLLING ? ["polling", "websocket"] : ["websocket"],
  perMessageDeflate: false,
  serveClient: false,
});

// Every room of the socket but its own.
const roomsOf = (socket) => [...socket.rooms].filter((room) => room !== socket.id);

io.on("connection", (socket) => {
  socket.on("join", (room, ack) => {
    socket.join(room);
    if (typeof ack === "function") ack();
  });
  socket.on("leave", (room, ack) => {
    socket.leave(room);
    if (typeof ack === "function") ack();
  });
  // Events of the built-in scenarios, as benchmarks/scenarios.toml has them.
  socket.on("message", (payload, ack) => {
    const rooms = roomsOf(socket);
    if (rooms.length > 0) io.to(rooms).emit("message", payload);
    if (typeof ack === "function") ack();
  });
  for (const event of ["push", "tick"]) {
    socket.on(event, (payload) => {
      const rooms = roomsOf(socket);
      if (rooms.length > 0) socket.to(rooms).emit(event, payload);
    });
  }
  socket.on("got", (payload, ack) => {
    if (typeof ack === "function") ack(payload);
  });
  socket.on("echo", (payload, ack) => {
    if (typeof ack === "function") ack(payload);
  });
  socket.on("pub", (payload) => {
    io.to(ROOM).emit("pub", payload);
  });
  socket.on("pub-own", (payload) => {
    const rooms = roomsOf(socket);
    if (rooms.length > 0) io.to(rooms).emit("pub-own", payload);
  });
});

http.listen(Number(process.env.PORT || 0), "127.0.0.1", 4096, () => {
  console.log(JSON.stringify({ port: http.address().port, pid: process.pid }));
});

process.on("SIGTERM", () => process.exit(0));
