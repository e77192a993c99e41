// Stock clients that ask all the time while their node sends them away, driven by lines of JSON.
//
//   node drain.mjs --url http://127.0.0.1:3000 --transport polling|upgrade|websocket --clients 100 --pause 100 --how steady|chance|loop
//
// Each client emits an event with a callback, and the next one after a pause: of `--pause` ms, of chance around it, or `loop`: that long
// after the answer. `--with timeout`: with `timeout()`, whose callback hears of a lost connection. `--with retries`: with the client's
// option of this name. `--with notice`: it leaves by itself when it hears SERVER_SHUTDOWN. It tells {"connected":N} whenever that changes. {"do":"stop"}: nobody asks any more, answers are waited for, and then
// it tells {"asked":N,"answered":N,"refused":N,"told":N,"unanswered":N,"connects":[…],"disconnects":{…},"refusals":{…}}.
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { io } from "socket.io-client";

const { values: settings } = parseArgs({
  options: {
    url: { type: "string" },
    transport: { type: "string" },
    clients: { type: "string" },
    pause: { type: "string" },
    how: { type: "string", default: "steady" },
    with: { type: "string", default: "nothing" },
  },
});

const PATIENCE_MS = 8_000;
/** What was asked and has no answer by then has none. */
const ANSWERS_MS = 20_000;
const transports = { polling: ["polling"], upgrade: ["polling", "websocket"], websocket: ["websocket"] }[settings.transport];
const pause = Number(settings.pause);
const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const counts = { asked: 0, answered: 0, refused: 0, told: 0 };
const connects = [];
const disconnects = {};
const refusals = {};
const connected = new Set();
let asking = true;

function pauseOf() {
  return settings.how === "chance" ? -Math.log(1 - Math.random()) * pause : pause;
}

/** Says goodbye by itself, when it has all answers: what it asks meanwhile waits in the client until it is connected again. */
class Leaver {
  #open = 0;
  #waiting = [];
  #goes = false;

  constructor(socket) {
    this.socket = socket;
    socket.on("SERVER_SHUTDOWN", () => {
      this.#goes = true;
      this.#look();
    });
    socket.on("connect", () => {
      this.#goes = false;
      for (const emit of this.#waiting.splice(0)) emit();
    });
  }

  emit(event, number, callback) {
    const emit = () => {
      this.#open += 1;
      this.socket.emit(event, number, (...answer) => {
        this.#open -= 1;
        callback(...answer);
        this.#look();
      });
    };
    if (this.#goes) this.#waiting.push(emit);
    else emit();
  }

  #look() {
    if (this.#goes && this.#open === 0 && this.socket.connected) this.socket.io.engine.close();
  }
}

function ask(socket, speaker, next) {
  counts.asked += 1;
  let open = true;
  const hears = settings.with === "timeout" || settings.with === "retries";
  const emitter = settings.with === "timeout" ? socket.timeout(PATIENCE_MS) : speaker;
  emitter.emit("n", counts.asked, (...answers) => {
    if (!open) throw new Error("answered twice");
    open = false;
    const [error, answer] = hears ? answers : [undefined, answers[0]];
    if (error) counts.told += 1;
    else if (answer?.error) {
      counts.refused += 1;
      refusals[answer.error] = (refusals[answer.error] ?? 0) + 1;
    } else counts.answered += 1;
    if (settings.how === "loop") next();
  });
}

/**
 * Reads what has come before it speaks: a timer that is late runs before that, and what is said to a connection whose end is here already is
 * lost whatever the node does. A close frame is read, too, before the library tells of it, which it does when the connection has ended.
 */
async function reads(socket) {
  await new Promise((done) => setImmediate(done));
  const isClosing = () => socket.connected && socket.io.engine.transport.ws?.readyState > 1;
  while (isClosing()) await new Promise((done) => setTimeout(done, 5));
}

function asks(socket, speaker) {
  const speak = async () => {
    await reads(socket);
    if (!asking) return;
    ask(socket, speaker, next);
    if (settings.how !== "loop") next();
  };
  const next = () => {
    if (asking) setTimeout(speak, pauseOf());
  };
  next();
}

for (let at = 0; at < Number(settings.clients); at += 1) {
  connects[at] = 0;
  const more = settings.with === "retries" ? { retries: 10, ackTimeout: 2_000 } : {};
  const socket = io(settings.url, { transports, forceNew: true, reconnectionDelay: 100, reconnectionDelayMax: 500, ...more });
  const speaker = settings.with === "notice" ? new Leaver(socket) : socket;
  let begun = false;
  socket.on("connect", () => {
    connects[at] += 1;
    connected.add(at);
    tell({ connected: connected.size });
    // In a loop, the answer that would go on may be lost with a connection.
    if (!begun || settings.how === "loop") asks(socket, speaker);
    begun = true;
  });
  socket.on("disconnect", (reason) => {
    connected.delete(at);
    disconnects[reason] = (disconnects[reason] ?? 0) + 1;
    tell({ connected: connected.size });
  });
}

async function stop() {
  asking = false;
  const until = Date.now() + ANSWERS_MS;
  const open = () => counts.asked - counts.answered - counts.refused - counts.told;
  while (open() > 0 && Date.now() < until) await new Promise((done) => setTimeout(done, 20));
  tell({ ...counts, unanswered: open(), connects, disconnects, refusals });
}

for await (const line of createInterface({ input: process.stdin })) {
  if (JSON.parse(line).do === "stop") await stop();
}
process.exit(0);
