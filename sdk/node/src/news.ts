// Changes of rooms a moment ago. At several gateways, a socket's own goes by its gateway and a broadcast by the first one, which may
// not know of the change yet.

/** By then all gateways know. */
const KEPT_MS = 1_000;
/** Of one room, the latest so many: a target does not grow with the number of its newcomers. */
const SOCKETS_MAX = 256;

interface Change {
  room: string;
  id: string;
  until: number;
}

export class News {
  /** The oldest first. */
  readonly #changes = new Map<string, Change>();
  /** By room: sockets that joined (`true`) or left it, the oldest first. */
  readonly #rooms = new Map<string, Map<string, boolean>>();

  note(id: string, rooms: Iterable<string>, joined: boolean): void {
    const until = Date.now() + KEPT_MS;
    for (const room of rooms) {
      const key = `${id} ${room}`;
      this.#changes.delete(key);
      this.#changes.set(key, { room, id, until });
      const sockets = this.#rooms.get(room) ?? new Map<string, boolean>();
      this.#rooms.set(room, sockets);
      sockets.delete(id);
      sockets.set(id, joined);
      const [oldest] = sockets.keys();
      if (sockets.size > SOCKETS_MAX) this.#forget({ room, id: oldest });
    }
    this.#tidy();
  }

  /** Sockets that joined or left the room a moment ago. */
  of(room: string): Iterable<[string, boolean]> {
    if (this.#changes.size > 0) this.#tidy();
    return this.#rooms.get(room) ?? [];
  }

  #tidy(): void {
    const now = Date.now();
    for (const change of this.#changes.values()) {
      if (change.until > now) return;
      this.#forget(change);
    }
  }

  #forget({ room, id }: { room: string; id: string }): void {
    this.#changes.delete(`${id} ${room}`);
    const sockets = this.#rooms.get(room);
    sockets?.delete(id);
    if (sockets?.size === 0) this.#rooms.delete(room);
  }
}
