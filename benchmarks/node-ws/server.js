// Bare WebSocket on Node (`ws`), as the peer of the benchmark suite: `e…` is echoed, `j` joins
// (answered `j`), `p…` goes to everyone who joined, as text without the letter.
// Prints one JSON line with its port and pid, then serves until it is told to stop.
"use strict";

const { createServer } = require("node:http");
const { WebSocketServer } = require("ws");

const http = createServer();
const server = new WebSocketServer({ server: http, perMessageDeflate: false, clientTracking: false });
const members = new Set();
const [ECHO, JOIN, PUBLISH] = ["e", "j", "p"].map((letter) => letter.charCodeAt(0));
const TEXT = { binary: false };

server.on("connection", (socket) => {
  socket.on("message", (data) => {
    if (data[0] === ECHO) {
      socket.send(data, TEXT);
    } else if (data[0] === PUBLISH) {
      const body = data.subarray(1);
      for (const member of members) member.send(body, TEXT);
    } else if (data[0] === JOIN) {
      members.add(socket);
      socket.send("j");
    }
  });
  socket.on("close", () => members.delete(socket));
  socket.on("error", () => {});
});

http.listen(Number(process.env.PORT || 0), "127.0.0.1", 4096, () => {
  console.log(JSON.stringify({ port: http.address().port, pid: process.pid }));
});

process.on("SIGTERM", () => process.exit(0));
