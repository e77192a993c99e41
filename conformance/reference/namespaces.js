// The namespaces of the conformance application outside /lab.
import { installLab } from "./lab.js";

export function installNamespaces(io) {
  installMain(io.of("/"));
  io.of("/custom").on("connection", (socket) => socket.emit("auth", socket.handshake.auth));
  installForbidden(io.of("/forbidden"));
  io.of(/^\/dyn-\d+$/).on("connection", (socket) => socket.emit("dyn", socket.nsp.name));
  installLab(io.of("/lab"));
}

function installMain(namespace) {
  namespace.on("connection", (socket) => {
    socket.emit("auth", socket.handshake.auth);
    socket.on("message", (...args) => socket.emit("message-back", ...args));
    socket.on("message-with-ack", (...args) => args.pop()(...args));
  });
}

function installForbidden(namespace) {
  namespace.use((_socket, next) => {
    const refusal = new Error("not authorized");
    refusal.data = { code: "E_AUTH", retry: false };
    next(refusal);
  });
}
