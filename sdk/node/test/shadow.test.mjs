// `sockeye-shadow` before Socket.IO's own server, with a gateway and a worker of this library as the one that is compared.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Server as SocketIo } from "socket.io";
import { io as connect } from "socket.io-client";
import { BINARY, stage } from "./stage.mjs";

const SHADOW = join(dirname(BINARY), "sockeye-shadow");
const EVENTS = Number(process.env.SHADOW_EVENTS ?? 1_500);
const WINDOW = process.env.SHADOW_WINDOW ?? "4s";

/** A club with sessions and rooms. `faults`: what this one does otherwise. */
function club(faults = {}) {
  return (io) => {
    io.use((socket, next) => {
      const { name } = socket.handshake.auth;
      if (!name) return next(Object.assign(new Error("who are you?"), { data: { hint: "auth.name" } }));
      socket.data.name = name;
      next();
    });
    io.on("connection", (socket) => {
      const { name } = socket.data;
      socket.emit("welcome", { id: socket.id, at: Date.now(), since: new Date().toISOString() });
      socket.on("join", async (room, done) => {
        await socket.join(room);
        if (!faults.missing || room !== "r1") socket.to(room).emit("joined", name, socket.id);
        if (faults.additional) socket.emit("hint", "new here?");
        done({ room, members: (await io.in(room).fetchSockets()).length });
      });
      socket.on("say", (room, text, done) => {
        io.to(room).emit("said", { from: socket.id, name, text: faults.different && text.endsWith("7") ? `${text}!` : text, at: Date.now() });
        done?.(text.length + (faults.answer ? 1 : 0));
      });
      socket.on("pair", (room) => {
        const pair = [["pair", 1], ["pair", 2]];
        for (const [event, n] of faults.order ? pair.reverse() : pair) io.to(room).emit(event, n);
      });
      socket.on("file", (bytes, done) => done({ length: bytes.length, back: Buffer.from(bytes).reverse() }));
      socket.on("disconnect", () => socket.broadcast.emit("left", socket.id, name));
      socket.on("survey", (done) => socket.timeout(20_000).emit("sure?", (error, answer) => done(error ? "no answer" : answer)));
    });
    io.of("/quiet").on("connection", (socket) => socket.on("echo", (...args) => args.pop()(args)));
  };
}

async function realServer(prepare) {
  const http = createServer((request, response) => response.end(`page for ${request.url}`));
  // Another protocol of the same server.
  http.on("upgrade", (request, socket) => {
    if (request.headers["x-no-websocket"]) {
      request.url = "/refused";
      return socket.end("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    }
    if (request.url !== "/chat") return;
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: Upgrade\r\n\r\n");
    socket.pipe(socket);
  });
  const io = new SocketIo(http, { maxHttpBufferSize: 1e7, destroyUpgrade: false });
  prepare(io);
  await once(http.listen(0, "127.0.0.1"), "listening");
  return { url: `http://127.0.0.1:${http.address().port}`, close: () => io.close() };
}

async function shadow(real, gateway, ...more) {
  const report = join(mkdtempSync(join(tmpdir(), "sockeye-shadow-")), "report.json");
  const args = ["--against", real, "--gateway", gateway, "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0", "--report", report, ...more];
  const child = spawn(SHADOW, args, { stdio: ["ignore", "pipe", "pipe"] });
  let told;
  const words = [];
  for await (const line of createInterface({ input: child.stderr })) {
    words.push(line);
    told = line.match(/clients connect to (\S+);.*figures at (\S+)/);
    if (told) break;
  }
  assert.ok(told, words.join("\n"));
  child.stderr.resume();
  let text = "";
  child.stdout.on("data", (data) => (text += data));
  const [, url, page] = told;
  return {
    url,
    page,
    child,
    figures: async () => (await fetch(`${page}report.json`)).json(),
    async end() {
      child.kill("SIGTERM");
      const [code] = await once(child, "close");
      return { code, text, report: JSON.parse(readFileSync(report, "utf8")) };
    },
  };
}

const TRANSPORTS = [["websocket"], ["polling"], ["polling", "websocket"]];

/** Three kinds of clients do all that the club offers, in rooms, at once. What they hear themselves is right. */
async function visit(url, clients, rounds) {
  const sockets = await Promise.all(
    Array.from({ length: clients }, async (_, n) => {
      const socket = connect(url, { forceNew: true, reconnection: false, transports: TRANSPORTS[n % 3], auth: { name: `n${n}` } });
      socket.on("sure?", (done) => done(`sure ${n}`));
      await once(socket, "connect");
      return socket;
    }),
  );
  const ask = (socket, ...args) => socket.timeout(30_000).emitWithAck(...args);
  let asked = 0;
  for (const [n, socket] of sockets.entries()) await ask(socket, "join", `r${n % 4}`);
  for (let round = 0; round < rounds; round++) {
    await Promise.all(
      sockets.map(async (socket, n) => {
        assert.equal(await ask(socket, "say", `r${n % 4}`, `text ${round}`), `text ${round}`.length);
        asked += 1;
      }),
    );
    const one = sockets[round % clients];
    await ask(one, "join", `r${round % 4}`);
    assert.equal(await ask(one, "survey"), `sure ${round % clients}`);
    const { length, back } = await ask(one, "file", Buffer.from([1, 2, round % 250]));
    assert.deepEqual([length, ...back], [3, round % 250, 2, 1]);
    // An order is compared where nobody else speaks.
    const isAlone = round % Math.max(5, Math.ceil(rounds / 20)) === 0;
    if (isAlone) await sleep(600);
    one.emit("pair", `r${round % 4}`);
    if (isAlone) await sleep(300);
  }
  const quiet = connect(`${url}/quiet`, { forceNew: true, reconnection: false });
  assert.deepEqual(await ask(quiet, "echo", 1, "two", { three: 3 }), [1, "two", { three: 3 }]);
  const stranger = connect(url, { forceNew: true, reconnection: false });
  const [refused] = await once(stranger, "connect_error");
  assert.deepEqual([refused.message, refused.data], ["who are you?", { hint: "auth.name" }]);
  // One at a time: each is gone from the gateway, too, before the next one leaves. Where two leave at once, each server has an order of its own.
  for (const socket of [...sockets, quiet, stranger]) {
    socket.disconnect();
    await sleep(EVENTS > 10_000 ? 1_500 : 400);
  }
  return asked;
}

async function compared(own, body, ...more) {
  const [real, gateway] = await Promise.all([realServer(club()), stage()]);
  await gateway.server({}, own);
  const between = await shadow(real.url, gateway.url, "--window", WINDOW, ...more);
  try {
    await body(between, { real, gateway });
    return await between.end();
  } finally {
    between.child.kill("SIGKILL");
    await Promise.all([real.close(), gateway.close()]);
  }
}

test("two servers that do the same have no difference, and clients notice nothing", async (t) => {
  let asked = 0;
  const { code, text, report } = await compared(club(), async ({ url, page, figures }) => {
    assert.equal(await (await fetch(`${url}/any?a=1`)).text(), "page for /any?a=1");
    for (let n = 0; n < 3; n++) asked += await visit(url, 12, Math.ceil(EVENTS / 36));
    assert.match(await (await fetch(page)).text(), /Sockeye shadow/);
    const now = await figures();
    assert.ok(now.events.said.equal > 0, JSON.stringify(now));
    await sleep(1_000);
  });
  t.diagnostic(text);
  assert.ok(asked >= EVENTS, `${asked}`);
  assert.equal(code, 0, text);
  assert.match(text, /\nno difference\n$/);
  assert.equal(report.sessions, 3 * 14);
  assert.equal(report.events.said.equal, report.events.said.equal + report.events.said.missing);
  for (const event of ["CONNECT", "CONNECT_ERROR", "welcome", "joined", "left", "said", "pair", "sure?", "ack of say", "ack of file", "ack of echo", "ack of survey"]) assert.ok(report.events[event]?.equal > 0, event);
});

const FAULTS = {
  missing: ["joined", "missing"],
  additional: ["hint", "additional"],
  different: ["said", "different"],
  answer: ["ack of say", "different"],
  order: ["pair", "reordered"],
};

test("planted faults are found and shown", { concurrency: true }, async (t) => {
  const planted = Object.entries(FAULTS).map(([fault, [event, kind]]) =>
    t.test(fault, async () => {
      const { code, text, report } = await compared(club({ [fault]: true }), async ({ url }) => {
        await visit(url, 6, 10);
        // What came in the last half of the window is not judged.
        await sleep(4_500);
      });
      assert.equal(code, 1);
      assert.ok(report.events[event][kind] > 0, text);
      // Clients that go while something is missing are waited for a second, all together: then news of each other may be missing, too.
      const others = Object.entries(report.events).filter(([name]) => ![event, "left"].includes(name));
      for (const [name, { missing, additional, different, reordered }] of others) assert.equal(missing + additional + different + reordered, 0, `${name}\n${text}`);
      const sample = report.samples.find((one) => one.event === event && one.kind === kind);
      assert.ok(sample, text);
      assert.doesNotMatch(JSON.stringify(report.samples), /text \d/, "values are not shown");
    }),
  );
  await Promise.all(planted);
});

test("a gateway that is away, strangers and other protocols end nothing for clients", async () => {
  const { code, report } = await compared(club(), async ({ url, figures }, { gateway }) => {
    // Protocol 3, garbage, half a request, and one that hangs up.
    assert.equal((await fetch(`${url}/socket.io/?EIO=3&transport=polling`)).status, 400);
    assert.equal((await fetch(`${url}/socket.io/?EIO=4&transport=polling&sid=nobody`)).status, 400);
    const port = Number(new URL(url).port);
    for (const bytes of ["GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: a\r\n\r\n", "\0\0\0\0", "POST /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\nabc"]) {
      const raw = createConnection(port, "127.0.0.1");
      raw.on("error", () => {});
      raw.write(bytes);
      await sleep(50);
      raw.destroy();
    }
    // A WebSocket of somebody else's protocol, both ways.
    const chat = createConnection(port, "127.0.0.1");
    chat.write("GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: chat\r\nConnection: Upgrade\r\n\r\n");
    let heard = "";
    chat.on("data", (data) => (heard += data));
    while (!heard.includes("\r\n\r\n")) await sleep(5);
    chat.write("hello");
    while (!heard.endsWith("hello")) await sleep(5);
    chat.destroy();
    // A client whose WebSocket is refused polls on, and is compared on.
    const polling = connect(url, { forceNew: true, reconnection: false, auth: { name: "polling" }, extraHeaders: { "x-no-websocket": "1" } });
    await once(polling, "connect");
    await sleep(300);
    assert.equal(polling.io.engine.transport.name, "polling");
    assert.equal(await polling.timeout(20_000).emitWithAck("say", "r1", "polled"), 6);
    const before = (await figures()).skipped;
    assert.equal(before["the gateway ended its copy of the session"], undefined, JSON.stringify(before));
    const early = connect(url, { forceNew: true, reconnection: false, auth: { name: "early" } });
    await once(early, "connect");
    await sleep(300);
    gateway.stop("SIGKILL");
    await visit(url, 6, 5);
    assert.equal(await early.timeout(20_000).emitWithAck("say", "r1", "still here"), 10);
    assert.equal(await polling.timeout(20_000).emitWithAck("say", "r1", "polled on"), 9);
    for (const socket of [early, polling]) socket.disconnect();
    await sleep(5_000);
  });
  assert.equal(code, 1);
  assert.ok(report.skipped["the gateway ended its copy of the session"] > 0, JSON.stringify(report));
  assert.ok(report.skipped["its Engine.IO is not of protocol 4"] > 0);
});

test("a share of new sessions goes to the gateway, and stays there", async () => {
  const named = (name) => (io) => io.on("connection", (socket) => socket.on("who", (done) => done(name)));
  const [real, gateway] = await Promise.all([realServer(named("node")), stage()]);
  await gateway.server({}, named("gateway"));
  const between = await shadow(real.url, gateway.url, "--switch", "50");
  try {
    const count = { node: 0, gateway: 0 };
    for (let n = 0; n < 60; n++) {
      const socket = connect(between.url, { forceNew: true, reconnection: false, transports: TRANSPORTS[n % 3] });
      const answers = [];
      for (let asked = 0; asked < 3; asked++) answers.push(await socket.timeout(20_000).emitWithAck("who"));
      assert.equal(new Set(answers).size, 1);
      count[answers[0]] += 1;
      socket.disconnect();
    }
    assert.ok(count.node > 10 && count.gateway > 10, JSON.stringify(count));
    await sleep(500);
    const { report } = await between.end();
    assert.equal(report.switched, count.gateway);
    assert.equal(report.sessions, count.node);
  } finally {
    between.child.kill("SIGKILL");
    await Promise.all([real.close(), gateway.close()]);
  }
});

test("what cannot be started says why", async () => {
  assert.ok(existsSync(SHADOW), SHADOW);
  const said = async (...args) => {
    const child = spawn(SHADOW, args, { stdio: ["ignore", "ignore", "pipe"] });
    let text = "";
    child.stderr.on("data", (data) => (text += data));
    const [code] = await once(child, "close");
    return [code, text];
  };
  for (const [args, reason] of [
    [["--against", "https://a", "--gateway", "http://b"], /is not `http:\/\/HOST`/],
    [["--against", "http://a:1", "--gateway", "http://a:1"], /cannot compare http:\/\/a:1 with itself/],
    [["--against", "http://a", "--gateway", "http://b", "--listen", "192.0.2.1:1"], /cannot listen on 192.0.2.1:1/],
    [["--against", "http://a", "--gateway", "http://b", "--ignore", "x"], /is not EVENT:PATH/],
    [["--against", "http://a", "--gateway", "http://b", "--switch", "200"], /not a number from 0 to 100/],
  ]) {
    const [code, text] = await said(...args);
    assert.equal(code, 2);
    assert.match(text, reason);
  }
});
