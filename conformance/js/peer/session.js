// What raw polling and raw WebSocket sessions share: a queue of received packets, the
// heartbeat answered on the way, and the Socket.IO steps nearly every dialogue needs.
import { connect, event, isStray, read } from "./packet.js";
import { within } from "./patience.js";

export const PING = "2";
export const PONG = "3";
export const NOOP = "6";

/** Opens a raw session that ends with the test `t`. */
export async function openFor(t, Transport, options) {
  const session = await Transport.open(options);
  t.after(() => session.close());
  return session;
}

/** Resolves when the session ends although every ping is answered. */
export async function keptAlive(session) {
  try {
    for (;;) await session.next("the end", 20_000);
  } catch (error) {
    if (!/closed with|answered 400/.test(error.message)) throw error;
  }
}

export class Session {
  /** Packets that arrived and were not read yet. */
  queue = [];
  /** Answer the server's pings; switched off by tests of the heartbeat. */
  answersPings = true;

  /** The next packet other than pings (answered) and noops. */
  async next(what = "a packet", ms) {
    return within(this.#nextMeaningful(), what, ms);
  }

  async #nextMeaningful() {
    for (;;) {
      const packet = await this.nextRaw();
      if (packet === PING && this.answersPings) await this.send(PONG);
      else if (packet !== NOOP && !isStray(packet)) return packet;
    }
  }

  /** The next Socket.IO packet, split. */
  async read(what, ms) {
    return read(await this.next(what, ms));
  }

  /** Joins a namespace and returns the CONNECT reply's data; `/` and `/custom` also greet with `auth`. */
  async join(namespace = "/lab", auth) {
    await this.send(connect(namespace, auth));
    const reply = await this.read(`the CONNECT reply of ${namespace}`);
    if (reply.type !== 0 || reply.namespace !== namespace) throw new Error(`CONNECT to ${namespace} was answered ${JSON.stringify(reply)}`);
    if (namespace === "/" || namespace === "/custom") await this.read("the auth greeting");
    return reply.data;
  }

  async emit(namespace, ...args) {
    await this.send(event(namespace, args));
  }

  /** Emits with an ack id and returns the ack's arguments; other packets met on the way are refused. */
  async ask(namespace, id, ...args) {
    await this.send(event(namespace, args, id));
    const reply = await this.read(`the ack ${id} of ${args[0]}`);
    if (reply.type !== 3 || reply.id !== id) throw new Error(`expected ack ${id}, got ${JSON.stringify(reply)}`);
    return reply.data;
  }
}
