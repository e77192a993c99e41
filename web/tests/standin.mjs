// Development aid: the chat profile on Socket.IO for Node, started like the gateway (serve
// --listen A --admin B).
import { createServer } from "node:http";
import { readFileSync, existsSync } from "node:fs";
import { join, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { Server } from "socket.io";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../chat/dist");
const [host, port] = process.argv[process.argv.indexOf("--listen") + 1].split(":");
const TYPES = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};
const http = createServer((request, response) => {
  const name = request.url.split("?")[0].slice(1) || "index.html";
  if (name.includes("/") || !existsSync(join(dist, name))) return response.writeHead(404).end();
  response
    .writeHead(200, {
      "Content-Type": TYPES[name.split(".").pop()],
      "Content-Security-Policy": "default-src 'self'; connect-src 'self' ws: wss:",
    })
    .end(readFileSync(join(dist, name)));
});
const io = new Server(http, { pingInterval: 25000, pingTimeout: 10000 });
const history = new Map();
let ids = 0;
const presence = (room) =>
  io.to(room).emit("presence", { room, count: io.of("/").adapter.rooms.get(room)?.size ?? 0 });
function enter(socket, room) {
  socket.join(room);
  socket.emit("history", { room, messages: history.get(room) ?? [] });
  presence(room);
}
io.on("connection", (socket) => {
  const name = socket.handshake.auth.name;
  const mine = () => [...socket.rooms].filter((room) => room !== socket.id);
  enter(socket, "global");
  socket.on("join", (room, ack) => {
    enter(socket, room);
    ack?.(mine());
  });
  socket.on("leave", (room, ack) => {
    socket.leave(room);
    presence(room);
    ack?.(mine());
  });
  socket.on("chat-message", (body, ack) => {
    const content = body?.content;
    if (typeof content !== "string" || content.length < 1 || [...content].length > 1000) {
      socket.emit("error", { message: "Invalid message payload" });
      return ack?.({ error: "Invalid message payload" });
    }
    const room = body.room ?? "global";
    const message = {
      id: String(++ids),
      sender: socket.id,
      name,
      content,
      timestamp: Date.now(),
      room,
    };
    history.set(room, [...(history.get(room) ?? []), message].slice(-100));
    io.to(room).emit("chat-message", message);
    ack?.({ id: message.id, timestamp: message.timestamp });
  });
  socket.on("disconnecting", () => {
    const rooms = mine();
    setTimeout(() => rooms.forEach(presence), 20);
  });
});
http.listen(Number(port), host, () => console.log(JSON.stringify({ message: "listening", port })));
process.on("SIGTERM", () => {
  io.emit("SERVER_SHUTDOWN", { message: "Server is shutting down" });
  setTimeout(() => process.exit(0), 100);
});
