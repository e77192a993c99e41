// Stock clients that lose their network and come back, at a server started with --recovery.
import { Cable } from "./cable.js";
import { ask, once, settled } from "./stock.js";
import { recoveryUrl as from } from "./target.js";

/** Longer than a ping and the time for its answer. */
const PATIENCE_MS = 20_000;
const RECONNECTS = { reconnection: true, reconnectionDelay: 100, reconnectionDelayMax: 200 };
export const CUTS = {
  reset: (cable, noticed) => cable.reset(noticed),
  silence: (cable, noticed) => cable.silence(noticed),
  "a restart of the proxy": (cable, noticed) => cable.restart(100, noticed),
};
export const numbers = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);
let rooms = 0;

/** A client on a cable of its own, a member of a room, and somebody who speaks to it. */
export async function stage(t, client) {
  const cable = await Cable.lay(t, from);
  const speaker = await client.connect(t, "/lab", { from });
  const socket = await client.connect(t, "/lab", { from: cable.url, ...RECONNECTS });
  const room = `returning-${process.pid}-${(rooms += 1)}`;
  await ask(socket, "join", room);
  const { id } = socket;
  const say = async (from, to) => {
    for (const n of numbers(from, to)) speaker.emit("in", room, "tick", n);
    await settled(speaker);
  };
  /** Cuts it, speaks meanwhile, and waits until it is there again. */
  const away = async (cut, meanwhile = async () => {}) => {
    const gone = once(socket, "disconnect", PATIENCE_MS);
    // Tries that fail meanwhile are no matter: it tries again.
    const back = once(socket, "connect", 2 * PATIENCE_MS);
    back.catch(() => {});
    const cutting = CUTS[cut](cable, gone);
    await gone;
    await meanwhile();
    await cutting;
    await back;
    return socket.recovered && socket.id === id;
  };
  return { cable, speaker, socket, room, id, say, away };
}
