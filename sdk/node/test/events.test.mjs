// When an event is handled, and which events are marked: workers that are killed, stopped and ended by what clients say.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, test } from "node:test";
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { eventInfo } from "@sockeye/server";
import { freeze, stage, until } from "./stage.mjs";

const CREW = fileURLToPath(new URL("crew.mjs", import.meta.url));
const children = new Set();
let here;
afterEach(async () => {
  children.forEach((child) => child.kill("SIGKILL"));
  await here?.close();
  here = undefined;
});
after(() => process.removeAllListeners("warning"));

function ledger() {
  const file = join(mkdtempSync(join(tmpdir(), "sockeye-")), "ledger");
  writeFileSync(file, "");
  return { file, lines: () => readFileSync(file, "utf8").split("\n").slice(0, -1) };
}

/** A worker process that writes into the file. */
async function crew({ file }, ...rest) {
  const child = spawn(process.execPath, [CREW, here.workers, here.key, file, ...rest], { stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  child.once("exit", () => children.delete(child));
  for await (const line of createInterface({ input: child.stdout })) if (line === "ready") break;
  child.stdout.resume();
  return child;
}

async function client(transport = "websocket") {
  const socket = here.open("/", { transports: [transport] });
  await once(socket, "connect");
  return socket;
}

/** All but the first go by one request, and are one message for the worker. */
async function say(...words) {
  const socket = await client("polling");
  for (const word of ["note 0", ...words]) socket.emit(...word.split(" "));
  return socket;
}

async function metric(name) {
  const text = await (await fetch(`${here.admin}/metrics`, { headers: { authorization: `Bearer ${here.key}` } })).text();
  const lines = text.split("\n").filter((line) => line.startsWith(name));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

test("what a listener throws comes before the events behind it, if the process survives that", async () => {
  process.env.SURVIVES = "1";
  here = await stage();
  const book = ledger();
  await crew(book);
  delete process.env.SURVIVES;
  const socket = await client();
  const words = ["note 1", "throws 2", "note 3", "throws 4", "throws 5", "note 6"];
  // All at once, and they are one message for the worker.
  for (const word of words) socket.emit(...word.split(" "));
  const caught = (word) => (word.startsWith("throws") ? [word, word.replace("throws", "caught")] : [word]);
  const expected = words.flatMap(caught).map((word) => `${word} 0`);
  await until(() => book.lines().length >= expected.length);
  assert.deepEqual(book.lines(), expected);
});

test("no event is handled behind one whose listener threw, if that ends the process", async () => {
  here = await stage();
  const book = ledger();
  const doomed = await crew(book);
  const socket = await client();
  for (const word of ["note 1", "throws 2", "note 3", "note 4"]) socket.emit(...word.split(" "));
  const [code] = await once(doomed, "exit");
  assert.equal(code, 1);
  assert.deepEqual(book.lines(), ["note 1 0", "throws 2 0"]);
});

// A worker that stood still for 1.5 s asks whether its sockets are still its own.
const STANDING = 'silent_after = "3s"';

/** What is said at once; the last handler that the worker calls never ends. */
const UNDER_WAY = [
  { words: ["blocks 1", "hangs 2"], name: "the worker asked for its sockets just before" },
  { words: ["slow 1", "note 2"], name: "it asked between middleware and listeners", settings: { MIDDLEWARE: "1" } },
  { words: ["leaves 1"], name: "its own handler closed the server" },
  { words: ["asks 1"], name: "its own handler gave the engine middleware" },
];

for (const { words, name, settings } of UNDER_WAY) {
  test(`an event under way was lost in a crash: ${name}`, async () => {
    Object.assign(process.env, settings);
    here = await stage(STANDING);
    const book = ledger();
    const doomed = await crew(book);
    for (const key in settings) delete process.env[key];
    const socket = await say(...words);
    const hanging = words.find((word) => !word.startsWith("blocks"));
    await until(() => book.lines().includes(`${hanging} 0`));
    const seen = [];
    await here.server({}, (io) => io.on("connection", (socket) => socket.onAny((...word) => seen.push(`${word.join(" ")} ${Number(eventInfo().redelivered)}`))));
    doomed.kill("SIGKILL");
    await until(() => !children.has(doomed));
    socket.emit("note", 9);
    await until(() => seen.some((word) => word.startsWith("note 9 ")));
    const lost = words.slice(words.indexOf(hanging)).filter((word) => !seen.includes(`${word} 1`));
    assert.deepEqual(lost, []);
  });
}

for (const [way, settings, behind] of [["ended the process", {}, []], ["was survived", { SURVIVES: "1" }, ["caught 1 0", "note 2 0"]]]) {
  test(`an error that came after the worker asked for its sockets, and ${way}, was behind the next event`, async () => {
    Object.assign(process.env, settings);
    here = await stage(STANDING);
    const book = ledger();
    const worker = await crew(book);
    for (const key in settings) delete process.env[key];
    await say("blocks 0", "throws 1", "note 2");
    const expected = ["note 0 0", "blocks 0 0", "throws 1 0", ...behind];
    await until(() => (behind.length > 0 ? book.lines().length >= expected.length : !children.has(worker)));
    assert.deepEqual(book.lines(), expected);
  });
}

test("data that a handler set after it gave the engine middleware was not said", async () => {
  here = await stage();
  await here.server({}, (io) =>
    io.on("connection", (socket) =>
      socket.on("asks", () => {
        io.engine.use((_, __, next) => next());
        socket.data.n = 1;
      }),
    ),
  );
  (await client()).emit("asks");
  const other = await here.server();
  await until(async () => (await other.fetchSockets())[0].data.n === 1);
});

test("of 5,000 events under way only 256 were marked, and one without arguments marked all others without", async () => {
  here = await stage('socket_max = "16MiB"\nqueue_max = "64MiB"');
  const book = ledger();
  const doomed = await crew(book);
  const socket = await client();
  for (let n = 0; n < 5_000; n++) socket.emit("never", ...[[], ["same"], [n]][n % 3]);
  await until(() => book.lines().length === 5_000);
  const seen = [];
  await here.server({}, (io) =>
    io.on("connection", (socket) => {
      socket.use(async ([name], next) => {
        const before = eventInfo().redelivered;
        await turn();
        seen.push(`${name} used ${before && eventInfo().redelivered}`);
        next();
      });
      socket.onAny((name) => seen.push(`${name} any ${eventInfo().redelivered}`));
      for (const name of ["never", "fresh"]) {
        socket.on(name, async () => {
          const before = eventInfo().redelivered;
          await pause(1);
          seen.push(`${name} heard ${before && eventInfo().redelivered}`);
        });
      }
    }),
  );
  doomed.kill("SIGKILL");
  await until(() => seen.length >= 5_000);
  for (let n = 0; n < 500; n++) socket.emit(n % 2 ? "fresh" : "never", ...[[], ["same"]][n % 2]);
  await until(() => seen.length >= 3 * 5_500);
  const many = (line) => seen.filter((said) => said === line).length;
  for (const way of ["used", "any", "heard"]) {
    assert.deepEqual([many(`never ${way} true`), many(`never ${way} false`), many(`fresh ${way} true`), many(`fresh ${way} false`)], [5_000, 250, 0, 250], way);
  }
});

test("an event whose handler waited for something was lost in a crash, and one that never ends kept others from being handled", async () => {
  here = await stage();
  const [first, second] = [ledger(), ledger()];
  const doomed = await crew(first);
  const socket = await client();
  socket.emit("note", 0);
  socket.emit("never", 1);
  for (let n = 2; n < 100; n++) socket.emit(n % 2 ? "note" : "brief", n);
  await until(() => first.lines().filter((line) => line.startsWith("after")).length === 49);
  // They are said to be handled in the next turn of the loop.
  await pause(200);
  await crew(second);
  doomed.kill("SIGKILL");
  await until(() => second.lines().length > 0);
  socket.emit("note", 100);
  await until(() => second.lines().length > 1);
  assert.deepEqual(second.lines(), ["never 1 1", "note 100 0"]);
});

test("listeners that may wait are found and taken off as ever", async () => {
  here = await stage();
  const calls = [];
  const sockets = [];
  const io = await here.server({}, (io) => io.on("connection", (socket) => sockets.push(socket)));
  const socket = await client();
  await until(() => sockets.length === 1);
  const [server] = sockets;
  const a = async () => void calls.push("a");
  const b = async () => void calls.push("b");
  const c = async () => void calls.push("c");
  server.on("x", a).prependListener("x", b).once("x", c).prependOnceListener("y", a).addListener("y", b);
  assert.deepEqual([server.listeners("x"), server.listeners("y"), server.listenerCount("x")], [[b, a, c], [a, b], 3]);
  server.off("y", a);
  assert.deepEqual(server.listeners("y"), [b]);
  socket.emit("x");
  socket.emit("x");
  socket.emit("y");
  await until(() => calls.length === 6);
  assert.deepEqual(calls.join(""), "bacbab");
  server.off("x", a).removeListener("x", b).removeAllListeners("y");
  socket.emit("x");
  socket.emit("y");
  server.on("z", () => calls.push("z"));
  socket.emit("z");
  await until(() => calls.length === 7);
  assert.deepEqual(server.listeners("x"), []);
  assert.equal(io.overdue, 0);
});

test("a rejection of a listener is one that nobody handles", async () => {
  here = await stage();
  await here.server({}, (io) =>
    io.on("connection", (socket) =>
      socket.on("fail", async () => {
        await turn();
        throw new Error("on purpose");
      }),
    ),
  );
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  const rejected = once(process, "unhandledRejection");
  (await client()).emit("fail");
  const [error] = await rejected;
  others.forEach((listener) => process.on("unhandledRejection", listener));
  assert.equal(error.message, "on purpose");
});

test("an event whose handler never ends counts as handled after a time, and this is told", async () => {
  here = await stage();
  const warned = new Promise((resolve) => process.on("warning", ({ message }) => /count as handled/.test(message) && resolve(message)));
  const io = await here.server({ handlerTimeout: 300 }, (io) => io.on("connection", (socket) => socket.on("never", () => new Promise(() => {}))));
  const socket = await client();
  socket.emit("never");
  assert.match(await warned, /1 events count as handled after 300 ms.*"never"/);
  assert.equal(io.overdue, 1);
  while ((await metric("sockeye_backend_overdue_total")) !== 1) await pause(20);
});

test("a worker that was stopped and goes on handled its buffer again", async () => {
  here = await stage('silent_after = "3s"');
  const [first, second] = [ledger(), ledger()];
  const stopped = await crew(first);
  const socket = await client();
  let n = 0;
  const speak = setInterval(() => socket.emit("note", n++), 1);
  await until(() => first.lines().length > 100);
  freeze(stopped);
  await crew(second);
  await until(() => second.lines().length > 500);
  const before = first.lines().length;
  stopped.kill("SIGCONT");
  // It comes back as a new worker, and could have done what it had by then.
  while ((await metric("sockeye_backend_workers ")) < 2) await pause(20);
  await pause(500);
  clearInterval(speak);
  const last = n - 1;
  await until(() => second.lines().some((line) => line.startsWith(`note ${last} `)));
  const twice = new Set(first.lines().slice(before));
  assert.ok(twice.size <= 1, `${twice.size} events were handled by a worker that had lost them`);
  const all = new Set([...first.lines(), ...second.lines()].map((line) => line.split(" ")[1]));
  assert.equal(all.size, n, "none is lost");
});

test("a worker that stood still for a moment goes on with what it has", async () => {
  here = await stage('silent_after = "3s"');
  const book = ledger();
  const stopped = await crew(book);
  const socket = await client();
  socket.emit("note", 0);
  await until(() => book.lines().length === 1);
  freeze(stopped);
  for (let n = 1; n < 50; n++) socket.emit("note", n);
  await pause(1_800);
  stopped.kill("SIGCONT");
  await until(() => book.lines().length === 50);
  assert.deepEqual(book.lines(), Array.from({ length: 50 }, (_, n) => `note ${n} 0`));
});

for (const poison of ["deadly", "delayed"]) {
  test(`an event that ends workers took innocent ones with it (${poison})`, async () => {
    here = await stage('socket_max = "16MiB"');
    const book = ledger();
    let [deaths, ended] = [0, false];
    const keep = async () => {
      while (!ended) {
        const child = await crew(book, "1000");
        await once(child, "exit");
        deaths += 1;
      }
    };
    const kept = Promise.all([keep(), keep()]);
    await until(() => children.size === 2);
    const innocent = await Promise.all(Array.from({ length: 8 }, client));
    const guilty = await client();
    const answers = [];
    const refused = new Promise((resolve) => guilty.emit(poison, resolve));
    for (let n = 0; n < 10; n++) {
      for (const [at, socket] of innocent.entries()) {
        if (n % 2) answers.push(new Promise((resolve) => socket.emit("told", `${at}:${n}`, resolve)));
        else socket.emit("note", `${at}:${n}`);
      }
      await pause(10);
    }
    assert.deepEqual(await refused, { error: "The backend failed on this event" });
    assert.deepEqual((await Promise.all(answers)).filter((error) => error !== undefined), []);
    const done = () => new Set(book.lines().map((line) => line.split(" ")[1])).size;
    await until(() => done() === 8 * 10);
    assert.equal(await metric('sockeye_backend_refused_total{reason="deadly"}'), 1);
    assert.ok(deaths <= 5, `${deaths} workers ended`);
    ended = true;
    children.forEach((child) => child.kill("SIGKILL"));
    await kept;
  });
}

test("workers that were killed faster than they start had innocent events refused", async () => {
  here = await stage('socket_max = "16MiB"');
  const book = ledger();
  const sockets = Array.from({ length: 4 }, () => here.open("/", { transports: ["websocket"] }));
  const answers = [];
  let n = 0;
  const speak = () => {
    for (const socket of sockets) {
      const own = n++;
      answers.push(new Promise((resolve) => socket.emit("told", own, resolve)));
      socket.emit("note", own);
    }
  };
  let deaths = 0;
  for (; deaths < 4; deaths++) {
    const child = await crew(book);
    if (deaths === 0) await until(() => sockets.every(({ connected }) => connected));
    const gone = once(child, "exit");
    for (let round = 0; round < 10; round++) speak();
    await turn();
    child.kill("SIGKILL");
    await gone;
  }
  const last = await crew(book);
  assert.deepEqual((await Promise.all(answers)).filter((error) => error !== undefined && error !== null), []);
  const handled = (name) => new Set(book.lines().filter((line) => line.startsWith(`${name} `)).map((line) => line.split(" ")[1])).size;
  await until(() => handled("note") === n);
  assert.equal(handled("told"), n);
  assert.equal(await metric("sockeye_backend_refused_total"), 0);
  last.kill("SIGKILL");
});
