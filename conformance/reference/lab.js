// The /lab namespace: every operation a client can ask the conformance application for.

export function installLab(namespace) {
  namespace.use((socket, next) => {
    const { auth } = socket.handshake;
    if (auth.reject) return next(new Error("rejected by token"));
    socket.data.user = auth.user;
    next();
  });
  namespace.on("connection", (socket) => {
    const operations = { ...conversation(socket), ...rooms(socket), ...broadcasts(socket), ...cluster(socket), ...endings(socket) };
    for (const [event, operation] of Object.entries(operations)) socket.on(event, operation);
  });
  namespace.on("ping-nodes", (x, answer) => {
    if (typeof answer === "function") answer({ pong: x });
    else namespace.local.emit("node-event", x);
  });
}

/** Splits the acknowledgement callback off the end of an event's arguments. */
function withAck(args) {
  return typeof args.at(-1) === "function" ? [args.slice(0, -1), args.at(-1)] : [args, undefined];
}

function conversation(socket) {
  return {
    echo: (...all) => {
      const [args, ack] = withAck(all);
      if (ack) ack(...args);
      else socket.emit("echo", ...args);
    },
    ask: (...args) => socket.emit("question", ...args, (...answer) => socket.emit("answer", ...answer)),
    who: (ack) => {
      const { auth, query } = socket.handshake;
      ack({ id: socket.id, transport: socket.conn.transport.name, recovered: socket.recovered, auth, query });
    },
    length: (buffer, ack) => ack(Buffer.isBuffer(buffer) ? buffer.length : -1),
    burst: (event, count) => repeat(count, (i) => socket.emit(event, i)),
    "in-volatile": (room, event, ...args) => io.of("/lab").volatile.to(room).emit(event, ...args),
    volatile: (event, count) => repeat(count, (i) => socket.volatile.emit(event, i)),
  };
}

function repeat(count, act) {
  for (let i = 0; i < count; i++) act(i);
}

function rooms(socket) {
  return {
    join: async (room, ack) => {
      await socket.join(room);
      ack([...socket.rooms]);
    },
    leave: async (room, ack) => {
      await socket.leave(room);
      ack([...socket.rooms]);
    },
  };
}

function broadcasts(socket) {
  const { nsp } = socket;
  return {
    to: (room, event, ...args) => socket.to(room).emit(event, ...args),
    in: (room, event, ...args) => nsp.in(room).emit(event, ...args),
    except: (room, event, ...args) => nsp.except(room).emit(event, ...args),
    all: (event, ...args) => nsp.emit(event, ...args),
    local: (event, ...args) => nsp.local.emit(event, ...args),
    "all-date": (event, ms) => nsp.emit(event, new Date(ms)),
    collect: (room, ms, event, ...all) => {
      const [args, ack] = withAck(all);
      nsp.in(room).timeout(ms).emit(event, ...args, (error, answers) => ack(error ? error.message : null, answers));
    },
  };
}

function cluster({ nsp }) {
  return {
    fetch: async (room, ack) => {
      try {
        const found = await (room === null ? nsp : nsp.in(room)).fetchSockets();
        ack(null, found.map(({ id, rooms, data }) => ({ id, rooms: [...rooms], data })));
      } catch (error) {
        ack(error.message);
      }
    },
    "sockets-join": (selector, room) => nsp.in(selector).socketsJoin(room),
    "sockets-leave": (selector, room) => nsp.in(selector).socketsLeave(room),
    "sockets-kick": (selector, close) => nsp.in(selector).disconnectSockets(close),
    "server-count": async (ack) => ack(await nsp.adapter.serverCount()),
    "server-side-emit": async (event, ...args) => {
      // The in-memory adapter of Node only prints a warning here: there is nobody to tell.
      if (await hasPeers(nsp)) nsp.serverSideEmit(event, ...args);
    },
    "server-side-ask": async (event, x, ack) => {
      // ... and here it never answers, so "no other server" has to be said by the application.
      if (!(await hasPeers(nsp))) return ack(null, []);
      nsp.serverSideEmitWithAck(event, x).then((answers) => ack(null, answers), (error) => ack(error.message, error.responses));
    },
  };
}

async function hasPeers(namespace) {
  return (await namespace.adapter.serverCount()) > 1;
}

function endings(socket) {
  return {
    kick: () => socket.disconnect(),
    "kick-close": () => socket.disconnect(true),
    drop: () => socket.conn.close(),
  };
}
