// Guests of a restaurant: a token lets them in, a table is a room, an order is an event with an ack.
import express from "express";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { Server } from "@sockeye/server"; // was: from "socket.io"

const GUESTS = new Map([["token-ada", "Ada"], ["token-grace", "Grace"], ["token-linus", "Linus"]]);
const MENU = ["soup", "fish", "cake"];

const app = express();
const server = createServer(app);
const io = new Server(server);

app.get("/", (req, res) => {
  res.sendFile(fileURLToPath(new URL("./index.html", import.meta.url)));
});

io.use((socket, next) => {
  const name = GUESTS.get(socket.handshake.auth.token);
  if (name === undefined) {
    const error = new Error("no such token");
    error.data = { hint: "ask at the door" };
    return next(error);
  }
  socket.data.name = name;
  next();
});

async function guestsAt(table) {
  const sockets = await io.in(table).fetchSockets();
  return sockets.map((socket) => socket.data.name).sort();
}

io.on("connection", (socket) => {
  const { data } = socket;

  socket.on("sit", async (table, done) => {
    if (data.table) {
      socket.to(data.table).emit("news", `${data.name} leaves`);
      await socket.leave(data.table);
    }
    data.table = table;
    await socket.join(table);
    socket.to(table).emit("news", `${data.name} sits down`);
    done({ guests: await guestsAt(table) });
  });

  socket.on("order", (dish, done) => {
    if (!data.table) return done({ error: "sit down first" });
    if (!MENU.includes(dish)) return done({ error: `no ${dish} today` });
    io.to(data.table).emit("news", `${data.name} orders ${dish}`);
    done({ order: randomUUID() });
  });

  socket.on("guests", async (done) => {
    done(await guestsAt(data.table));
  });

  socket.on("disconnecting", () => {
    for (const room of socket.rooms) {
      if (room !== socket.id) socket.to(room).emit("news", `${data.name} leaves`);
    }
  });
});

const port = process.env.PORT ?? 3000;
server.listen(port, () => {
  console.log(`listening on port ${port}, open /?token=token-ada`);
});
