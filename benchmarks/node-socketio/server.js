// Socket.IO on Node as npm installs it (engine: ws), as the peer of the benchmark suite.
// Prints one JSON line with its port and pid, then serves until it is told to stop.
"use strict";

const { createServer } = require("node:http");
const { Server } = require("socket.io");

const ROOM = "bench";

const http = createServer();
const io = new Server(http, {
  transports: ["websocket"],
  perMessageDeflate: false,
  serveClient: false,
});

io.on("connection", (socket) => {
  socket.on("join", (room, ack) => {
    socket.join(room);
    if (typeof ack === "function") ack();
  });
  socket.on("echo", (payload, ack) => {
    if (typeof ack === "function") ack(payload);
  });
  socket.on("pub", (payload) => {
    io.to(ROOM).emit("pub", payload);
  });
  socket.on("pub-own", (payload) => {
    const rooms = [...socket.rooms].filter((room) => room !== socket.id);
    if (rooms.length > 0) io.to(rooms).emit("pub-own", payload);
  });
});

http.listen(Number(process.env.PORT || 0), "127.0.0.1", 4096, () => {
  console.log(JSON.stringify({ port: http.address().port, pid: process.pid }));
});

process.on("SIGTERM", () => process.exit(0));
