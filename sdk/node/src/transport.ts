// The way to a gateway, in words that say nothing of bytes: messages there and back, and how it ended.
import type { FromWorker, ToWorker } from "./messages.js";
import type { Tls } from "./link.js";

/** Codes of gRPC, of those that a gateway ends links with. */
export const INVALID_ARGUMENT = 3;
export const UNAUTHENTICATED = 16;

/** Why a way ended. */
export interface Fault {
  /** A code of gRPC; nothing: the connection broke. */
  code?: number;
  details: string;
  /** What is known of the other end: it speaks another protocol, or took the connection and said nothing. */
  other?: "protocol" | "silent";
}

export interface Ends {
  message(message: ToWorker): void;
  /** Once, and last. */
  ended(fault?: Fault): void;
}

export interface Transport {
  write(message: FromWorker): void;
  /** Nothing more is written or heard. */
  end(): void;
}

export interface Goal {
  gateway: string;
  key: string;
  tls?: Tls;
}

/** A message of the gateway may have so much. */
export const MESSAGE_BYTES_MAX = 64 << 20;

export interface Address {
  secure: boolean;
  address: string;
  host: string;
  port: number;
  /** Of a Unix socket. */
  path?: string;
}

/** Without a number, as in gRPC. */
const PORT = 443;

/** An address as programs give it: `host:port`, with `https://` for TLS; `unix:/path` on the same host. */
export function addressOf({ gateway, tls }: Goal): Address {
  const [, path] = /^unix:(?:\/\/)?(\/.+)$/.exec(gateway) ?? [];
  if (path && tls) throw new Error(`cannot use TLS at "${gateway}": a Unix socket has none`);
  if (path) return { secure: false, address: `unix:${path}`, host: "", port: 0, path };
  const [, scheme, address] = /^(?:(https?):\/\/)?([^/]+)\/?$/.exec(gateway) ?? [];
  const [, host, port] = /^(\[[^\]]+\]|[^:]+)(?::(\d{1,5}))?$/.exec(address ?? "") ?? [];
  if (!host) throw new Error(`cannot use the gateway address "${gateway}": give host:port, https://host:port for TLS, or unix:/path`);
  return { secure: scheme === "https" || tls !== undefined, address, host: host.replace(/^\[|\]$/g, ""), port: Number(port ?? PORT) };
}
