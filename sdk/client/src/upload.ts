// Uploads: bodies above the limit of messages, by HTTP.

import type { LargeMessage } from "./large.ts";

export interface UploadOptions {
  /** The token of the client. */
  token: string;
  /** Name of the event that announces it. */
  event: string;
  room?: string;
  namespace?: string;
  /** Name of a file. */
  name?: string;
  /** Without it: that of a `Blob`. */
  contentType?: string;
  signal?: AbortSignal;
}

/** Why a gateway did not take an upload. */
export class UploadError extends Error {
  readonly status: number;
  /** Such as `QUOTA_EXCEEDED`. */
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.name = "UploadError";
    this.status = status;
    this.code = code;
  }
}

/**
 * Something above the limit of messages: the gateway stores it and announces it to a room. Members
 * get the reference as the argument of the event. Rejects with an `UploadError`.
 */
export async function upload(
  client: { url: string | undefined; id: string | undefined },
  body: Blob | ArrayBuffer | Uint8Array<ArrayBuffer> | string,
  options: UploadOptions,
): Promise<LargeMessage> {
  const { token, event, room, namespace, name, contentType, signal } = options;
  const url = new URL("/upload", client.url ?? globalThis.location?.href);
  const said = Object.entries({ event, room, namespace, name, socket: client.id });
  for (const [key, value] of said) if (value !== undefined) url.searchParams.set(key, value);
  const headers = new Headers({ authorization: `Bearer ${token}` });
  if (contentType !== undefined) headers.set("content-type", contentType);
  const init: RequestInit = { method: "POST", headers, body, credentials: "omit" };
  const response = await fetch(url, signal ? { ...init, signal } : init);
  // An answer without JSON comes from a proxy.
  const answer = await response.json().catch(() => undefined);
  if (response.ok && answer) return answer;
  const { error = "UNKNOWN", message = `the answer is ${response.status}` } = answer ?? {};
  throw new UploadError(response.status, error, message);
}
