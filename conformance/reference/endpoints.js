// What the reference peer's one HTTP port offers: Socket.IO, a bare Engine.IO echo, a bare
// WebSocket echo, and 404 for the rest.
import { Server as Engine } from "engine.io";
import { Server as SocketIo } from "socket.io";
import msgpackParser from "socket.io-msgpack-parser";
import { WebSocketServer } from "ws";

/** Autobahn's section 9 sends messages of 16 MiB, and 4 MiB in 65,536 fragments. */
const ECHO_MAX_PAYLOAD = 64 * 1024 * 1024;
const ECHO_MAX_FRAGMENTS = 128 * 1024;
const ECHO_PATH = /^\/echo(\?|$)/;

export function refuseOtherPaths(server) {
  server.on("request", (_request, response) => {
    response.writeHead(404, { "content-length": 0 });
    response.end();
  });
  server.on("upgrade", (request, socket) => {
    if (/^\/(socket|engine)\.io\//.test(request.url) || ECHO_PATH.test(request.url)) return;
    socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  });
}

/** A WebSocket without any protocol on top, for Autobahn. Deflate is on for its sections 12 and 13. */
export function attachEcho(server) {
  const echo = new WebSocketServer({
    noServer: true,
    maxPayload: ECHO_MAX_PAYLOAD,
    maxFragments: ECHO_MAX_FRAGMENTS,
    perMessageDeflate: true,
  });
  echo.on("connection", (socket) => {
    // A protocol error ends the connection by itself; without a listener it would end the process.
    socket.on("error", () => {});
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  server.on("upgrade", (request, socket, head) => {
    if (!ECHO_PATH.test(request.url)) return;
    echo.handleUpgrade(request, socket, head, (client) => echo.emit("connection", client, request));
  });
}

/** Engine.IO alone: every message comes back as it came. */
export function attachEngine(server, settings) {
  const engine = new Engine({ ...engineOptions(settings) });
  engine.attach(server, { path: "/engine.io/", destroyUpgrade: false });
  engine.on("connection", (socket) => socket.on("message", (data) => socket.send(data)));
}

export async function attachSocketIo(server, settings) {
  const options = { ...engineOptions(settings), path: "/socket.io/", connectTimeout: settings.connectTimeout };
  if (settings.parser === "msgpack") options.parser = msgpackParser;
  if (settings.recovery) options.connectionStateRecovery = {};
  options.allowEIO3 = settings.allowEIO3;
  return new SocketIo(server, options);
}

function engineOptions(settings) {
  return {
    pingInterval: settings.pingInterval,
    pingTimeout: settings.pingTimeout,
    maxHttpBufferSize: settings.maxPayload,
    transports: ["polling", "websocket"],
    cors: { origin: "*" },
    // Several endpoints share the port, so none may destroy another's WebSocket handshakes.
    destroyUpgrade: false,
    perMessageDeflate: settings.deflate ? { threshold: 0 } : false,
  };
}
