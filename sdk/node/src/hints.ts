// What a program asks for and never gets from its gateway: it works without, so it is told once, and nothing ends.
import type { Manners, Namespaces } from "./messages.js";

/** A program may make namespaces of names that clients say: no more of them are told. */
const TOLD_MAX = 10;

export class Hints {
  readonly #backend: string;
  /** Namespaces that the program named, until they are told. */
  readonly #named = new Set<string>(["/"]);
  #told = 0;
  #toldRecovery = false;
  #namespaces: Namespaces | null = null;
  /** The program counts on clients that come back. Set by the server. */
  wantsRecovery: () => boolean = () => false;
  /** It has handlers for `/`, which is always there. Set by the server. */
  handlesRoot: () => boolean = () => false;

  constructor(backend: string) {
    this.#backend = backend;
  }

  /** The program named a namespace. */
  named(name: string): void {
    this.#named.add(name);
    if (this.#namespaces) this.#look(name, this.#namespaces);
  }

  /** A gateway welcomed this worker. One that says nothing of namespaces is older than this. */
  hear({ namespaces }: Manners): void {
    if (!namespaces) return;
    this.#namespaces = namespaces;
    for (const name of this.#named) this.#look(name, namespaces);
    if (namespaces.recovers || this.#toldRecovery || !this.wantsRecovery()) return;
    this.#toldRecovery = true;
    const name = gives(namespaces, "/") ? "/" : namespaces.all_but ? "*" : (namespaces.names[0] ?? "/");
    const why = `the gateway has no recovery in the namespaces of backend "${this.#backend}"`;
    warn(`\`connectionStateRecovery\` brings no client back: ${why}; set level = "node" in [namespaces."${name}".recovery] there, or leave it out`);
  }

  #look(name: string, own: Namespaces): void {
    if (gives(own, name) || this.#told === TOLD_MAX || (name === "/" && !this.handlesRoot())) return;
    this.#named.delete(name);
    this.#told += 1;
    warn(`no client comes to namespace ${name}: the gateway does not give it to backend "${this.#backend}"; set backend = "${this.#backend}" in [namespaces."${name}"] there`);
  }
}

const gives = ({ names, all_but }: Namespaces, name: string): boolean => names.includes(name) !== all_but;

const warn = (message: string): void => process.emitWarning(message, "SockeyeWarning");
