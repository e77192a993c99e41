// A board that people point at together. The gateway says who is there (presence); this program names people and passes on where they point.
import express from "express";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { Server } from "@sockeye/server";

const NAME_MAX = 40;
const BOARD = "board";

const app = express();
const server = createServer(app);
const io = new Server(server);

app.get("/", (req, res) => {
  res.sendFile(fileURLToPath(new URL("./index.html", import.meta.url)));
});

io.use((socket, next) => {
  const name = String(socket.handshake.auth.name ?? "").trim();
  if (name === "" || name.length > NAME_MAX) return next(new Error(`a name has 1 to ${NAME_MAX} characters`));
  // The configuration lets others see it: `presence.info`.
  socket.data.name = name;
  next();
});

const isShare = (value) => Number.isFinite(value) && value >= 0 && value <= 1;

io.on("connection", (socket) => {
  socket.join(BOARD);
  // Nobody points for somebody else: the program says whose cursor it is.
  socket.on("cursor", (place) => {
    if (!isShare(place?.x) || !isShare(place?.y)) return;
    // A client that reads slowly gets the newest place of each cursor: `slow_consumer = "conflate"`.
    socket.to(BOARD).emit("cursor", { id: socket.id, x: place.x, y: place.y });
  });
});

const port = process.env.PORT ?? 3000;
server.listen(port, () => {
  console.log(`listening on port ${port}`);
});
