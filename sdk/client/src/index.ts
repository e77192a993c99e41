// A client for gateways, on top of the stock Socket.IO client.

export { Client, type ClientOptions, type Notices } from "./client.ts";
export type { Connect, Link, SocketSettings } from "./connection.ts";
export { type Delivery, DeliveryError, type DeliveryState, type Failure } from "./delivery.ts";
export type { Events } from "./events.ts";
export type { LargeMessage, LargeOptions } from "./large.ts";
export { UploadError, type UploadOptions, upload } from "./upload.ts";
