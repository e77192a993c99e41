// Stock clients that are cut and come back, each time to whichever node the balancer gives them.
//
//   node returning.mjs --url http://BALANCER --speaker http://NODE --clients 6 --rounds 5
//
// They are by long-polling, by WebSocket and by an upgrade, and each is cut in turns by a reset, by silence (the node believes that it is there) and
// by a restart of a proxy. Somebody speaks to their room all the time. It tells {"lost":N,"recovered":N,"fresh":N,"wrong":[…]}:
// connections that clients lost, returns with and without their socket, and clients that did not get each number once and in order.
import { parseArgs } from "node:util";
import { io } from "socket.io-client";
import { Cable } from "../js/peer/cable.js";

const { values: settings } = parseArgs({
  options: { url: { type: "string" }, speaker: { type: "string" }, clients: { type: "string" }, rounds: { type: "string" } },
});

const PATIENCE_MS = 30_000;
const EACH_ROUND = 40;
const room = "returning";
const WAYS = [["websocket"], ["polling"], ["polling", "websocket"]];
const CUTS = [
  (cable, noticed) => cable.reset(noticed),
  (cable, noticed) => cable.silence(noticed),
  (cable, noticed) => cable.restart(100, noticed),
];
const options = { transports: ["websocket"], forceNew: true, reconnectionDelay: 50, reconnectionDelayMax: 200 };
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function eventually(holds) {
  for (const until = Date.now() + PATIENCE_MS; !holds(); await pause(20)) {
    if (Date.now() > until) return false;
  }
  return true;
}

const connected = (socket) => (socket.connected ? Promise.resolve() : new Promise((done) => socket.once("connect", done)));
const counts = { lost: 0, recovered: 0, fresh: 0 };

/** A client of the room: the numbers that it heard, and its cable. */
async function member(_, at) {
  const cable = await Cable.lay({ after() {} }, settings.url);
  const socket = io(cable.url, { ...options, transports: WAYS[at % WAYS.length] });
  const heard = [];
  socket.on("say", ({ n }) => heard.push(n));
  await connected(socket);
  await socket.timeout(PATIENCE_MS).emitWithAck("join", room);
  socket.on("disconnect", () => {
    counts.lost += 1;
  });
  socket.on("connect", () => {
    counts[socket.recovered ? "recovered" : "fresh"] += 1;
  });
  return { socket, heard, cable };
}

const speaker = io(settings.speaker, options);
await connected(speaker);
await speaker.timeout(PATIENCE_MS).emitWithAck("join", room);
const members = await Promise.all(Array.from({ length: Number(settings.clients) }, member));
let said = 0;
for (let round = 0; round < Number(settings.rounds); round += 1) {
  for (let n = 0; n < EACH_ROUND; n += 1) {
    speaker.emit("say", { room, n: said });
    said += 1;
    if (n === 5) {
      // A client that is cut in the last step of its way up misses that until no ping comes, after 45 s.
      await eventually(() => members.every(({ socket }) => !socket.io.engine.upgrading));
      for (const [at, { socket, cable }] of members.entries()) {
        const noticed = new Promise((done) => socket.once("disconnect", done));
        void CUTS[(round + at) % CUTS.length](cable, noticed);
      }
    }
    await pause(10);
  }
  // Whoever is not back has no connection that could be cut.
  if (!(await eventually(() => members.every(({ socket, heard }) => socket.connected && heard.length >= said)))) break;
}
await pause(300);
const expected = Array.from({ length: said }, (_, n) => n);
const wrong = members.filter(({ heard }) => JSON.stringify(heard) !== JSON.stringify(expected));
console.log(JSON.stringify({ ...counts, wrong: wrong.map(({ heard }) => heard) }));
process.exit(0);
