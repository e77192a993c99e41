// Requests for sessions: `allowRequest`, middleware of the engine, and headers of answers.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { poll, post, stage, until } from "./stage.mjs";

let here;
before(async () => (here = await stage("openings = true")));
after(() => here.close());

/** The end of a WebSocket that is not let in. */
async function refusal(options) {
  const client = here.open("/", { transports: ["websocket"], ...options });
  const [error] = await once(client, "connect_error");
  client.disconnect();
  return error;
}

test("allowRequest refuses over long-polling and WebSocket, and what it notes on the request is there later", async () => {
  const asked = [];
  const io = await here.server({
    allowRequest: (request, done) => {
      asked.push(request.url);
      request.guest = request.headers["x-guest"];
      setTimeout(() => done(request.guest === "bad" ? "not you" : null, request.guest === "good"), 5);
    },
  });
  const guest = new Promise((resolve) => io.on("connection", (socket) => resolve(socket.request.guest)));
  const refused = await poll(here.url, "", { "x-guest": "bad" });
  assert.deepEqual([refused.status, await refused.json()], [403, { code: 4, message: "not you" }]);
  const silent = await poll(here.url);
  assert.deepEqual([silent.status, await silent.json()], [403, { code: 4, message: "Forbidden" }]);
  assert.match(String((await refusal({ extraHeaders: { "x-guest": "bad" } })).description?.message), /403/);
  const client = here.open("/", { extraHeaders: { "x-guest": "good" } });
  await once(client, "connect");
  assert.equal(await guest, "good");
  // Each request for a session once, and none of those that go on with it.
  assert.equal(asked.length, 4);
  assert.match(asked[0], /^\/socket.io\/\?EIO=4&transport=polling/);
  client.disconnect();
  await until(() => io.engine.clientsCount === 0);
  await io.close();
});

test("listeners and middleware of the engine add headers to the answer that opens a session", async () => {
  const io = await here.server({}, ({ engine }) => {
    engine.use((request, response, next) => {
      response.setHeader("x-frame", "none");
      request.user = "cook";
      next(request.headers["x-stop"] && new Error("stop"));
    });
    engine.on("initial_headers", (headers, request) => {
      headers["set-cookie"] = ["a=1; Path=/", `user=${request.user}`];
      headers["content-length"] = "99999";
    });
  });
  const answer = await poll(here.url);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("x-frame"), "none");
  assert.deepEqual(answer.headers.getSetCookie(), ["a=1; Path=/", "user=cook"]);
  assert.match(await answer.text(), /^0\{"sid"/);
  // As Engine.IO answers when middleware fails.
  const stopped = await poll(here.url, "", { "x-stop": "1" });
  assert.deepEqual([stopped.status, stopped.headers.get("x-frame"), await stopped.json()], [400, "none", { code: 3, message: "Bad request" }]);
  await io.close();
});

for (const event of ["initial_headers", "headers"]) {
  test(`a client whose ${event} listener threw was answered with 200 and nothing else`, async () => {
    const io = await here.server({}, ({ engine }) => {
      engine.on(event, () => {
        throw new Error("no header");
      });
    });
    const answer = await poll(here.url);
    assert.deepEqual([answer.status, await answer.json()], [403, { code: 4, message: "no header" }]);
    await io.close();
  });
}

test("a session that middleware stores at the end of an answer was not there for the next request", async () => {
  const sessions = new Set();
  const seen = [];
  const io = await here.server({}, (io) => {
    io.engine.use((request, response, next) => {
      const { end } = response;
      // As express-session does.
      response.end = (...args) => setImmediate(() => (sessions.add("a"), end.apply(response, args)));
      response.setHeader("set-cookie", "session=a");
      next();
    });
    io.on("connection", ({ request }) => seen.push(sessions.has(request.headers.cookie)));
  });
  const answer = await poll(here.url);
  assert.equal(answer.headers.get("set-cookie"), "session=a");
  assert.deepEqual([...sessions], ["a"]);
  const client = here.open("/", { extraHeaders: { cookie: "a" } });
  await once(client, "connect");
  assert.deepEqual(seen, [true]);
  client.disconnect();
  // Else the next test's server gets its socket.
  await until(() => io.engine.clientsCount === 0);
  await io.close();
});

test("middleware that ends an answer by itself refuses, and is told that it is written", async () => {
  let finished = 0;
  const io = await here.server({}, ({ engine }) => {
    engine.use((_, response) => {
      response.on("finish", () => (finished += 1));
      response.writeHead(401).end("no");
    });
  });
  assert.equal((await poll(here.url)).status, 401);
  assert.equal(finished, 1);
  await io.close();
});

test("an answer that middleware wrote by itself became a 403 without its lines and its content", async () => {
  const long = "x".repeat(64 << 10);
  const answers = {
    jwt: (response) => response.writeHead(401, "Unauthorized", { "WWW-Authenticate": 'Bearer realm="kitchen"', "Content-Length": 5 }).end("token"),
    login: (response) => response.writeHead(302, { Location: "/log-in", "Set-Cookie": ["a=1", "b=2"] }).end(),
    chunks: (response) => {
      Object.assign(response, { statusCode: 429 }).setHeader("Content-Type", "application/json");
      response.setHeader("Retry-After", "7");
      response.write('{"slow":');
      setImmediate(() => response.end(Buffer.from("true}")));
    },
    bytes: (response) => response.writeHead(418, { "X-Name": "caf\u00e9" }).end(Buffer.from([0, 255, 13, 10])),
    early: (response) => {
      response.writeContinue();
      response.writeEarlyHints({ link: "</style.css>; rel=preload" });
      response.writeHead(401, { "X-Late": "here" }).end("late");
    },
    empty: (response) => response.writeHead(204).end(),
    most: (response) => response.writeHead(503).end(long),
    more: (response) => response.writeHead(503).end(`${long}x`),
    strange: (response) => response.writeHead(777).end("?"),
  };
  let entered = 0;
  const io = await here.server({}, (io) => {
    io.engine.use((request, response, next) => (answers[request.headers["x-answer"]] ?? (() => next()))(response));
    io.on("connection", () => (entered += 1));
  });
  const ask = (answer) => fetch(`${here.url}/socket.io/?EIO=4&transport=polling`, { headers: { "x-answer": answer }, redirect: "manual" });
  const jwt = await ask("jwt");
  assert.deepEqual([jwt.status, jwt.headers.get("www-authenticate"), await jwt.text()], [401, 'Bearer realm="kitchen"', "token"]);
  const login = await ask("login");
  assert.deepEqual([login.status, login.headers.get("location"), login.headers.getSetCookie()], [302, "/log-in", ["a=1", "b=2"]]);
  const chunks = await ask("chunks");
  assert.deepEqual([chunks.status, chunks.headers.get("retry-after"), chunks.headers.get("content-type")], [429, "7", "application/json"]);
  assert.deepEqual(await chunks.json(), { slow: true });
  const bytes = await ask("bytes");
  assert.deepEqual([bytes.status, bytes.headers.get("x-name"), [...new Uint8Array(await bytes.arrayBuffer())]], [418, "caf\u00e9", [0, 255, 13, 10]]);
  const early = await ask("early");
  assert.deepEqual([early.status, early.headers.get("link"), early.headers.get("x-late"), await early.text()], [401, null, "here", "late"]);
  const empty = await ask("empty");
  assert.deepEqual([empty.status, await empty.text()], [204, ""]);
  const most = await ask("most");
  assert.deepEqual([most.status, (await most.text()) === long], [503, true]);
  const words = [];
  const { error } = console;
  console.error = (line) => words.push(line);
  const refused = [403, { code: 4, message: "refused by a middleware of the engine" }];
  for (const name of ["more", "strange"]) {
    const answer = await ask(name);
    assert.deepEqual([answer.status, await answer.json()], refused);
  }
  console.error = error;
  assert.match(words[0], /with status 503: it has 65537 bytes, and the gateway takes 65536; the client is told 403/);
  assert.match(words[1], /with status 777: it is none of 200 to 599/);
  // Stock clients see the status, and nobody came in.
  assert.match(String((await refusal({ extraHeaders: { "x-answer": "jwt" } })).description?.message), /401/);
  assert.equal((await refusal({ transports: ["polling"], extraHeaders: { "x-answer": "chunks" } })).description, 429);
  assert.equal(entered, 0);
  await io.close();
});

test("a client waits for the first worker, and nobody slips in while there is none", async () => {
  const waits = poll(here.url);
  const io = await here.server({ allowRequest: (_, done) => done(null, false) });
  assert.equal((await waits).status, 403);
  await io.close();
});

test("the second CONNECT of a session got past allowRequest while that decided about the first", async () => {
  const first = await here.server({ allowRequest: (_, done) => done(null, true) });
  const [, sid] = /"sid":"([^"]+)"/.exec(await (await poll(here.url)).text());
  await first.close();
  const io = await here.server({ allowRequest: (_, done) => setImmediate(() => done("not you", false)) });
  let entered = 0;
  io.of("/admin").on("connection", () => (entered += 1));
  assert.equal(await post(here.url, sid, "40\x1e40/admin,"), 200);
  const packets = [];
  while (packets.length < 2) packets.push(...(await (await poll(here.url, sid)).text()).split("\x1e").filter((packet) => packet.startsWith("4")));
  assert.deepEqual(packets.sort(), ['44/admin,{"message":"not you"}', '44{"message":"not you"}']);
  assert.equal(entered, 0);
  await io.close();
});

test("a client whose worker left before it decided is let in by the next one", async () => {
  let hear;
  const asked = new Promise((resolve) => (hear = resolve));
  const first = await here.server({ allowRequest: hear });
  const waits = poll(here.url);
  await asked;
  const io = await here.server({ allowRequest: (_, done) => done(null, true) });
  await first.close();
  assert.equal((await waits).status, 200);
  await io.close();
});
