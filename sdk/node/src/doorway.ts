// Requests for sessions about which this worker decides, and those that it let in until their clients say CONNECT.
import type { IncomingMessage } from "node:http";
import { requestOf } from "./connection.js";
import type { Engine } from "./engine.js";
import type { Link } from "./link.js";
import type { Opening } from "./messages.js";

/** A session that was let open is kept in mind for so long, and so many are. */
const REQUEST_KEPT_MS = 60_000;
const REQUESTS_MAX = 16_384;

export class Doorway {
  readonly #engine: Engine;
  /** By link, then by number. */
  readonly #admitted = new Map<Link, Map<number, { request: IncomingMessage; until: number }>>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** A client asks for a session. */
  asked(link: Link, { opening, ...asked }: Opening): void {
    const request = requestOf(asked);
    const { lives } = link;
    this.#engine.admit(request, (verdict) => {
      // The number is another request's by now.
      if (link.lives !== lives) return;
      if (verdict.admit) this.#keep(link, opening, request);
      link.command({ verdict: { opening, ...verdict } });
    });
  }

  #keep(link: Link, opening: number, request: IncomingMessage): void {
    const requests = this.#admitted.get(link) ?? new Map();
    this.#admitted.set(link, requests);
    const now = Date.now();
    requests.set(opening, { request, until: now + REQUEST_KEPT_MS });
    for (const [oldest, { until }] of requests) {
      if (until > now && requests.size <= REQUESTS_MAX) break;
      requests.delete(oldest);
    }
  }

  /** The request that opened a session, if this worker let it in. Told once. */
  take(link: Link, opening: number): IncomingMessage | undefined {
    const known = this.#admitted.get(link)?.get(opening);
    this.#admitted.get(link)?.delete(opening);
    return known?.request;
  }

  /** The next gateway there may give the same numbers to other requests. */
  lost(link: Link): void {
    this.#admitted.delete(link);
  }

  clear(): void {
    this.#admitted.clear();
  }
}
