// A clock that nobody misses a tick of: pages lose their connection all the time, and come back to the socket that they had.
import express from "express";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { Server } from "@sockeye/server";

const TICK_MS = 200;

const app = express();
const server = createServer(app);
const io = new Server(server, {
  // On the gateway its configuration says for how long: `[namespaces."/".recovery]`.
  connectionStateRecovery: { maxDisconnectionDuration: 120_000, skipMiddlewares: true },
});

app.get("/", (req, res) => {
  res.sendFile(fileURLToPath(new URL("./index.html", import.meta.url)));
});

io.on("connection", (socket) => {
  if (!socket.recovered) {
    socket.join("visitors");
    socket.data.since = Date.now();
  }
  socket.on("who am i", (done) => {
    if (typeof done === "function") done({ rooms: [...socket.rooms], data: socket.data });
  });
});

// With two programs there are two clocks.
let tick = 0;
setInterval(() => {
  io.to("visitors").emit("tick", { clock: process.pid, tick: tick++ });
}, TICK_MS);

const port = process.env.PORT ?? 3000;
server.listen(port, () => {
  console.log(`listening on port ${port}`);
});
