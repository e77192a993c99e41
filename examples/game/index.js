// A field with players: twenty times a second, everybody is told who has moved since. A client that reads slowly gets the newest place of each player, and no old ones.
import express from "express";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { Server } from "@sockeye/server"; // was: from "socket.io"

const TICK_MS = 50;
const SIZE = 20;
const STEPS = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] };

const app = express();
const server = createServer(app);
const io = new Server(server);

app.get("/", (req, res) => {
  res.sendFile(fileURLToPath(new URL("./index.html", import.meta.url)));
});

// Those that have moved since the last tick. A place belongs to its socket: `data` goes with it when another worker takes it over.
const moved = new Set();
const within = (value) => Math.max(0, Math.min(SIZE - 1, value));

io.on("connection", (socket) => {
  const { data } = socket;
  if (data.x === undefined) Object.assign(data, { x: Math.floor(Math.random() * SIZE), y: Math.floor(Math.random() * SIZE) });
  moved.add(socket);

  socket.on("step", (direction) => {
    const [dx, dy] = STEPS[direction] ?? [0, 0];
    Object.assign(data, { x: within(data.x + dx), y: within(data.y + dy) });
    moved.add(socket);
  });

  // Worth nothing a moment later: whoever cannot take it now never gets it.
  socket.on("wave", () => io.volatile.emit("wave", socket.id));

  socket.on("players", async (done) => {
    done((await io.fetchSockets()).map(({ id, data: { x, y } }) => ({ id, x, y })));
  });

  socket.on("disconnect", () => {
    moved.delete(socket);
    io.emit("gone", { id: socket.id });
  });
});

setInterval(() => {
  for (const { id, data } of moved) io.emit("place", { id, x: data.x, y: data.y });
  moved.clear();
}, TICK_MS);

const port = process.env.PORT ?? 3000;
server.listen(port, () => {
  console.log(`listening on port ${port}`);
});
