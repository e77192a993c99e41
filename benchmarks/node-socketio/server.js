// Socket.IO on Node as npm installs it (engine: ws), as the peer of the benchmark suite and of the
// scenarios. With POLLING=1 it also offers long-polling, with MAX_REQUESTS=n it ends a connection
// behind its n-th answer, with TLS_CERT and TLS_KEY (files) it speaks TLS, with DEFLATE=1 it compresses,
// with SECRET it wants a token signed by it, with PING it pings every so many milliseconds and waits as long,
// with REDIS (a URL) it is one of several servers, by Socket.IO's Redis adapter.
// Prints one JSON line with its port and pid, then serves until it is told to stop.
"use strict";

const { createHmac } = require("node:crypto");
const { readFileSync } = require("node:fs");
const { Server } = require("socket.io");

const ROOM = "bench";

const { TLS_CERT, TLS_KEY, SECRET } = process.env;
const http = TLS_CERT
  ? require("node:https").createServer({ cert: readFileSync(TLS_CERT), key: readFileSync(TLS_KEY) })
  : require("node:http").createServer();
http.maxRequestsPerSocket = Number(process.env.MAX_REQUESTS || 0);
const io = new Server(http, {
  transports: process.env.POLLING ? ["polling", "websocket"] : ["websocket"],
  perMessageDeflate: process.env.DEFLATE ? { threshold: 0 } : false,
  serveClient: false,
  ...(process.env.PING && { pingInterval: Number(process.env.PING), pingTimeout: Number(process.env.PING) }),
});

if (SECRET) {
  io.use((socket, next) => {
    const [head, claims, signature] = String(socket.handshake.auth.token).split(".");
    const right = createHmac("sha256", SECRET).update(`${head}.${claims}`).digest("base64url");
    if (signature !== right) return next(new Error("bad token"));
    const { sub, exp } = JSON.parse(Buffer.from(claims, "base64url"));
    next(sub && exp * 1000 > Date.now() ? undefined : new Error("bad claims"));
  });
}

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

async function joinCluster(url) {
  const publisher = require("redis").createClient({ url });
  const subscriber = publisher.duplicate();
  await Promise.all([publisher.connect(), subscriber.connect()]);
  io.adapter(require("@socket.io/redis-adapter").createAdapter(publisher, subscriber));
}

const listen = () => http.listen(Number(process.env.PORT || 0), "127.0.0.1", 4096, () => {
  console.log(JSON.stringify({ port: http.address().port, pid: process.pid }));
});

if (process.env.REDIS) joinCluster(process.env.REDIS).then(listen);
else listen();

process.on("SIGTERM", () => process.exit(0));
