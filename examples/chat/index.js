// Everybody hears what anybody says: the first program that one writes with Socket.IO.
import express from "express";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { Server } from "@sockeye/server"; // was: from "socket.io"

const app = express();
const server = createServer(app);
const io = new Server(server);

app.get("/", (req, res) => {
  res.sendFile(fileURLToPath(new URL("./index.html", import.meta.url)));
});

io.on("connection", (socket) => {
  socket.on("chat message", (text) => {
    io.emit("chat message", text);
  });
});

const port = process.env.PORT ?? 3000;
server.listen(port, () => {
  console.log(`listening on port ${port}`);
});
