export { Server } from "./server.js";
export type { Options } from "./server.js";
export type { Tls } from "./link.js";
export { eventInfo } from "./mark.js";
export type { EventInfo } from "./mark.js";
export { traceparent } from "./trace.js";
export { Unsupported } from "./unsupported.js";
export { Namespace, Socket } from "socket.io";
export type { BroadcastOperator, DefaultEventsMap, DisconnectReason, Event, ExtendedError, RemoteSocket, ServerOptions } from "socket.io";
