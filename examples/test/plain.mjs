// The library's name means socket.io: the examples run on Socket.IO's own server.
import { register } from "node:module";

const hook = `export const resolve = (name, context, next) => next(name === "@sockeye/server" ? "socket.io" : name, context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
