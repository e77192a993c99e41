// Other tabs of this browser: a name that one of them has is not offered to another.

type Note = { ask: true } | { name: string };

export class Tabs {
  #channel = new BroadcastChannel("sockeye");
  #taken: (name: string) => void = () => {};

  constructor(ownName: () => string) {
    this.#channel.addEventListener("message", ({ data }: MessageEvent<Note>) => {
      if ("name" in data) this.#taken(data.name);
      else if (ownName() !== "") this.#channel.postMessage({ name: ownName() });
    });
  }

  /** Calls back with each name that is taken. */
  ask(taken: (name: string) => void): void {
    this.#taken = taken;
    this.#channel.postMessage({ ask: true });
  }
}
