// One socket of this worker: how far it is, and what waits until it is further.
import type { Connection } from "./connection.js";
import type { Link } from "./link.js";
import type { Command, Connect, Past, Resume } from "./messages.js";

/** `asked`: middleware decides. `resuming`: it comes from another worker. `in`: its handlers run. `away`: another worker has it.
 * `ended`: nothing more is said of it. */
export type Stage = "asked" | "resuming" | "in" | "away" | "ended";

export class Member {
  readonly id: string;
  readonly namespace: string;
  /** What the client said when it connected. */
  readonly auth: Record<string, unknown>;
  readonly resume?: Resume;
  /** Rooms and data that it had before: on another worker, or on a connection that its client lost. */
  readonly past?: Past;
  stage: Stage;
  /** Raw JSON of its data, as the gateway has it. */
  said = "{}";
  /** Members of its data that cannot be JSON. */
  unsaid?: Set<string>;
  connection: Connection;
  /** Socket.IO works on it. */
  begun = false;
  /** Another worker waits for it, while middleware works on it. */
  parting = false;
  /** Its client has gone, and handlers hear of it soon. */
  leaving = false;
  /** It began again, in another session than its first. */
  returned = false;
  readonly link: Link;
  /** The command that ends it, and its number. */
  ending?: { command: Command; number: number };
  #items: (() => void)[] | null = [];
  #commands: (Command | (() => void))[] | null = [];
  #after: (() => void)[] | null = [];

  constructor(connection: Connection, link: Link, connect: Connect, resume?: Resume) {
    this.id = connect.socket;
    this.namespace = connect.namespace;
    this.auth = JSON.parse(connect.auth.toString() || "{}");
    this.connection = connection;
    this.link = link;
    this.resume = resume;
    this.past = resume ?? connect.returned ?? undefined;
    this.stage = resume ? "resuming" : "asked";
    if (this.past) this.said = this.past.data;
  }

  /** What Socket.IO's namespace gets as `auth`: it finds the socket's id in it, by which `restoreSession` knows it. */
  get claim(): object {
    const hidden = (value: string) => ({ value, enumerable: false });
    const claim = this.auth !== null && typeof this.auth === "object" ? { ...this.auth } : {};
    delete claim.pid;
    delete claim.offset;
    return Object.defineProperties(claim, { pid: hidden(this.id), offset: hidden("") });
  }

  /** It begins again. */
  into(connection: Connection): this {
    this.connection = connection;
    this.begun = false;
    return this;
  }

  /** Now, or as soon as its handlers are there. */
  take(number: number, act: () => void): void {
    if (!this.#items) return act();
    this.link.hold(number);
    this.#items.push(() => {
      this.link.release(number);
      act();
    });
  }

  /** The same for what is handled already as far as the gateway is concerned. */
  later(act: () => void): void {
    if (this.#items) this.#items.push(act);
    else act();
  }

  /** When it is over. */
  whenOver(act: () => void): void {
    if (this.#after) this.#after.push(act);
    else act();
  }

  /** Sends a command about it: behind the one that lets it in, without a number (0) until then. Nothing: it is not sent. */
  command(command: Command): number | undefined {
    if (this.stage === "ended") return undefined;
    if (!this.#commands) return this.link.command(command);
    this.#commands.push(command);
    return 0;
  }

  /** Behind the commands that wait until it is let in; `false`: none wait. If it never is, `act` runs when it is over. */
  whenIn(act: () => void): boolean {
    this.#commands?.push(act);
    return this.#commands !== null;
  }

  #takeCommands(): (Command | (() => void))[] {
    const commands = this.#commands ?? [];
    this.#commands = null;
    return commands;
  }

  /** Middleware let it in. */
  admit(): void {
    if (this.stage === "asked") this.link.command({ decision: { socket: this.id, admit: true } });
    this.stage = "in";
    for (const command of this.#takeCommands()) {
      if (typeof command === "function") command();
      else this.link.command(command);
    }
    // By then `connection` handlers have run, and Socket.IO finds the socket by its namespace.
    process.nextTick(() => this.#open());
  }

  /** Another worker has it. What handlers still say of it is said. */
  part(): void {
    this.stage = "away";
    this.#over();
  }

  /** Another worker has it, and its handlers have heard nothing of it here. */
  giveBack(): void {
    this.#commands = null;
    this.part();
    this.#open();
  }

  /** It is over. What waits is not handled any more. */
  drop(): void {
    this.stage = "ended";
    for (const command of this.#takeCommands()) if (typeof command === "function") command();
    this.#open();
    this.#over();
  }

  #over(): void {
    const after = this.#after;
    this.#after = null;
    if (after) setImmediate(() => after.forEach((act) => act()));
  }

  /** What comes meanwhile waits behind them. When one throws, the others have a tick of their own. */
  #open(): void {
    const items = this.#items;
    if (!items) return;
    let done = false;
    try {
      for (let act = items.shift(); act; act = items.shift()) act();
      done = true;
    } finally {
      if (done) this.#items = null;
      else process.nextTick(() => this.#open());
    }
  }
}
