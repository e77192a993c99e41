// What programs for Socket.IO's own server count on, seen by stock clients and raw requests.
import assert from "node:assert/strict";
import { once } from "node:events";
import { get } from "node:http";
import { after, before, test } from "node:test";
import { poll, post, stage, until } from "./stage.mjs";

let here;
let sockets = [];
const open = (...args) => {
  const socket = here.open(...args);
  sockets.push(socket);
  return socket;
};

/** The next test's server is to have no clients of this one. */
async function end(...servers) {
  sockets.forEach((socket) => socket.disconnect());
  sockets = [];
  await until(() => servers.every((io) => io.engine.clientsCount === 0));
  await Promise.all(servers.map((io) => io.close()));
}

before(async () => (here = await stage()));
after(() => here.close());

test("the connection says at once that it was upgraded", async () => {
  const io = await here.server();
  const upgraded = new Promise((resolve) => io.on("connection", ({ conn }) => conn.on("upgrade", (transport) => resolve([transport.name, conn.transport.name]))));
  open();
  assert.deepEqual(await upgraded, ["websocket", "websocket"]);
  await end(io);
});

test("an event above all that may wait for a client came to none that polls", async () => {
  const io = await here.server();
  const state = "x".repeat(2_500_000);
  io.on("connection", (socket) => {
    socket.emit("before");
    socket.emit("state", state);
    socket.emit("behind");
  });
  for (const transports of [["polling"], ["websocket"]]) {
    const client = open("/", { transports, reconnection: false });
    const heard = [];
    client.onAny((name, arg) => heard.push([name, arg?.length]));
    await once(client, "behind");
    assert.deepEqual(heard, [["before", undefined], ["state", state.length], ["behind", undefined]]);
  }
  await end(io);
});

test("a client that leaves while middleware works on it ends its connection then", async () => {
  const io = await here.server();
  let connected = false;
  io.on("connection", () => (connected = true));
  const left = new Promise((resolve) => {
    io.use((socket, next) => {
      client.io.engine.close();
      socket.client.conn.on("close", (reason) => {
        next();
        setImmediate(() => resolve(reason));
      });
    });
  });
  const client = open("/", { transports: ["websocket"] });
  assert.equal(await left, "transport close");
  assert.equal(connected, false);
  assert.equal(io.engine.clientsCount, 0);
  await end(io);
});

test("packetCreate tells what is written, with the flag compress", async () => {
  const io = await here.server();
  const packets = [];
  io.of("/chat").on("connection", (socket) => {
    socket.conn.on("packetCreate", ({ type, data, options }) => packets.push([type, data, options.compress]));
    socket.emit("woot", "hi");
    socket.compress(false).emit("woot", Buffer.from([1]));
    io.of("/chat").compress(false).emit("all");
  });
  const client = open("/chat");
  await once(client, "all");
  const expected = [
    ["message", '2/chat,["woot","hi"]', true],
    ["message", '51-/chat,["woot",{"_placeholder":true,"num":0}]', false],
    ["message", Buffer.from([1]), false],
    ["message", '2/chat,["all"]', false],
  ];
  assert.deepEqual(packets.slice(-4), expected);
  await end(io);
});

test("admin-ui ended the worker: packets from the client were objects; it asks for drain, writeBuffer and server as well", async () => {
  const io = await here.server();
  const packets = [];
  const drained = new Promise((resolve) => {
    io.on("connection", (socket) => {
      const { conn } = socket;
      conn.on("packet", ({ type, data }) => packets.push([type, data]));
      conn.on("drain", () => resolve([conn.writeBuffer.length, conn.server === io.engine]));
      socket.on("bytes", (_, done) => done());
    });
  });
  const client = open("/", { transports: ["websocket"] });
  await client.emitWithAck("bytes", Buffer.from([1]));
  const [[type, text], bytes] = packets;
  assert.equal(type, "message");
  assert.match(text, /^51-\d+\["bytes",{"_placeholder":true,"num":0}\]$/);
  assert.deepEqual(bytes, ["message", Buffer.from([1])]);
  assert.deepEqual(await drained, [0, true]);
  await end(io);
});

test("an answer was heard before the event that its client had sent before it", async () => {
  const io = await here.server();
  const story = [];
  io.on("connection", (socket) => {
    socket.on("first", () => story.push("event"));
    socket.emit("ask", () => story.push("answer"));
  });
  const client = open("/", { transports: ["websocket"] });
  client.on("ask", (done) => {
    client.emit("first");
    done();
  });
  await until(() => story.length === 2);
  assert.deepEqual(story, ["event", "answer"]);
  await end(io);
});

test("a volatile event behind another one of the same turn is dropped, as the transport is busy", async () => {
  const io = await here.server();
  io.on("connection", (socket) => {
    socket.on("go", async (done) => {
      socket.emit("ev", 1);
      socket.volatile.emit("ev", 2);
      socket.emit("ev", 3);
      // Then the client has taken all of them.
      await socket.emitWithAck("taken");
      socket.volatile.emit("ev", 4);
      done();
    });
    socket.on("all", (done) => {
      io.emit("ev", 5);
      io.volatile.emit("ev", 6);
      setTimeout(done, 20);
    });
  });
  const client = open("/", { transports: ["websocket"] });
  const heard = [];
  client.on("ev", (n) => heard.push(n));
  client.on("taken", (done) => done());
  await client.emitWithAck("go");
  await client.emitWithAck("all");
  assert.deepEqual(heard, [1, 3, 4, 5]);
  await end(io);
});

test("a session that breaks the protocol ends with the packets of Socket.IO's server", async () => {
  const errors = [];
  const io = await here.server();
  io.on("connection", (socket) => socket.on("error", ({ message }) => errors.push(message)));
  const begin = async () => JSON.parse((await (await poll(here.url)).text()).slice(1)).sid;

  const stranger = await begin();
  assert.equal(await post(here.url, stranger, '42["some event"]'), 200);
  assert.equal(await (await poll(here.url, stranger)).text(), "6\u001e1");

  const member = await begin();
  await post(here.url, member, "40");
  assert.match(await (await poll(here.url, member)).text(), /^40\{"sid":/);
  await post(here.url, member, "45woooot");
  assert.equal(await (await poll(here.url, member)).text(), "6\u001e1");
  await until(() => errors.length > 0);
  assert.match(errors[0], /Illegal attachments/);

  const early = await begin();
  await post(here.url, early, "40");
  await post(here.url, early, "4abc");
  assert.match(await (await poll(here.url, early)).text(), /^40\{"sid":/);
  assert.equal(await (await poll(here.url, early)).text(), "6\u001e1");

  const twice = await begin();
  await post(here.url, twice, "40");
  await post(here.url, twice, "40");
  assert.match(await (await poll(here.url, twice)).text(), /^40\{"sid":/);
  assert.equal(await (await poll(here.url, twice)).text(), "6\u001e1");
  await end(io);
});

test("a burst of one client is not refused", async () => {
  const io = await here.server();
  let heard = 0;
  io.on("connection", (socket) => socket.on("n", () => (heard += 1)));
  const client = open("/", { transports: ["websocket"] });
  await once(client, "connect");
  for (let n = 0; n < 3_000; n++) client.emit("n", n);
  await until(() => heard === 3_000);
  await end(io);
});

test("allSockets() knew the sockets of its own worker only", async () => {
  const servers = [await here.server(), await here.server()];
  for (const io of servers) io.on("connection", (socket) => socket.join("kitchen"));
  const clients = Array.from({ length: 4 }, () => open("/", { transports: ["websocket"] }));
  await Promise.all(clients.map((client) => once(client, "connect")));
  await until(() => servers.every((io) => io.engine.clientsCount > 0));
  const ids = clients.map(({ id }) => id).sort();
  for (const io of servers) {
    assert.deepEqual([...(await io.allSockets())].sort(), ids);
    assert.deepEqual([...(await io.in("kitchen").allSockets())].sort(), ids);
    assert.equal((await io.in("nowhere").allSockets()).size, 0);
  }
  await end(...servers);
});

test("socket.rooms follows the server API and other workers", async () => {
  const [one, two] = [await here.server(), await here.server()];
  const socketOf = new Promise((resolve) => [one, two].forEach((io) => io.on("connection", resolve)));
  const client = open("/", { transports: ["websocket"] });
  await once(client, "connect");
  const socket = await socketOf;
  const other = socket.nsp === one.of("/") ? two : one;
  const call = async (path, body) => {
    const headers = { authorization: `Bearer ${here.key}`, "content-type": "application/json" };
    const answer = await fetch(`${here.admin}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    assert.equal(answer.ok, true, await answer.text());
  };
  await call("join", { namespace: "/", rooms: [socket.id], join: ["by-api"] });
  await until(() => socket.rooms.has("by-api"));
  other.in("by-api").socketsJoin("by-worker");
  await until(() => socket.rooms.has("by-worker"));
  assert.deepEqual([...one.of("/").adapter.rooms.get("by-worker") ?? two.of("/").adapter.rooms.get("by-worker")], [socket.id]);
  other.in("by-worker").socketsLeave("by-api");
  await until(() => !socket.rooms.has("by-api"));
  assert.deepEqual([...socket.rooms], [socket.id, "by-worker"]);
  // Its own changes do not come back to it.
  socket.nsp.in("by-worker").socketsJoin("own");
  socket.leave("own");
  await other.fetchSockets();
  assert.equal(socket.rooms.has("own"), false);
  await end(one, two);
});

test("a room that the gateway refuses stayed in socket.rooms, and nobody was told", async (t) => {
  const told = [];
  t.mock.method(console, "error", (text) => told.push(text));
  const crowded = await stage("", "", "[limits]\nrooms_per_socket_max = 3");
  t.after(() => crowded.close());
  let socket;
  await crowded.server({}, (io) => io.on("connection", (newcomer) => (socket = newcomer)));
  const client = crowded.open("/", { transports: ["websocket"] });
  await once(client, "connect");
  socket.join(["", "one", "r".repeat(257), "two"]);
  await until(() => socket.rooms.size === 3);
  assert.deepEqual([...socket.rooms], [socket.id, "one", "two"]);
  assert.match(told.join(), /name of a room in join.rooms is empty, or longer than limits.room_name_bytes_max/);
  socket.join(["three", "four"]);
  await until(() => !socket.rooms.has("four"));
  assert.deepEqual([...socket.rooms], [socket.id, "one", "two", "three"]);
  client.disconnect();
});

test("`handshake.url` began with /socket.io/ whatever path the gateway has", async (t) => {
  const elsewhere = await stage("", "", '[socketio]\npath = "/rt/"');
  t.after(() => elsewhere.close());
  let handshake;
  await elsewhere.server({}, (io) => io.on("connection", (newcomer) => ({ handshake } = newcomer)));
  const client = elsewhere.open("/", { path: "/rt/", transports: ["websocket"], query: { table: "7" } });
  await once(client, "connect");
  await until(() => handshake);
  assert.match(handshake.url, /^\/rt\/\?.*\btable=7\b/);
  client.disconnect();
});

test("an event with an ack that middleware said to its socket was not sent", async () => {
  const answers = [];
  const io = await here.server({}, (io) => {
    io.use((socket, next) => {
      socket.emit("said", 1);
      socket.emit("asked", 2, (answer) => answers.push(answer));
      socket.timeout(10_000).emit("asked", 3, (error, answer) => answers.push(error ?? answer));
      socket.emit("said", 4);
      setTimeout(() => next(socket.handshake.auth.stranger ? new Error("who are you?") : undefined), 20);
    });
    io.on("connection", (socket) => socket.emit("said", 5));
  });
  const client = open("/", { transports: ["websocket"] });
  const heard = [];
  client.on("said", (n) => heard.push(n));
  client.on("asked", (n, done) => (heard.push(n), done(n)));
  await until(() => answers.length === 2 && heard.length === 5);
  assert.deepEqual([heard, answers], [[1, 2, 3, 4, 5], [2, 3]]);
  const stranger = open("/", { transports: ["websocket"], auth: { stranger: true } });
  stranger.onAny(() => heard.push("a stranger"));
  await once(stranger, "connect_error");
  await end(io);
  assert.equal(heard.length, 5);
});

/** The command that ends all of them went before what was said about each. */
for (const close of [false, true]) {
  test(`sockets that were ended together heard nothing of each other's ends: disconnectSockets(${close})`, async () => {
    const heard = [];
    const io = await here.server({}, (io) => {
      io.on("connection", (socket) => {
        socket.join("table");
        socket.on("disconnect", () => io.to("table").emit("left", socket.handshake.auth.seat));
      });
    });
    const clients = [];
    for (const seat of [0, 1, 2]) {
      const client = open("/", { transports: ["websocket"], auth: { seat } });
      client.on("left", (who) => heard.push(`${seat} hears of ${who}`));
      client.on("disconnect", (reason) => heard.push(`${seat}: ${reason}`));
      await once(client, "connect");
      clients.push(client);
    }
    await until(() => io.sockets.sockets.size === 3);
    io.disconnectSockets(close);
    await until(() => clients.every((client) => !client.connected));
    for (const seat of [0, 1, 2]) {
      const own = heard.filter((line) => line.startsWith(`${seat}`));
      const before = [0, 1, 2].slice(0, seat).map((who) => `${seat} hears of ${who}`);
      assert.deepEqual(own, [...before, `${seat}: io server disconnect`]);
    }
    await end(io);
  });
}

test("io.engine.clients was not there", async () => {
  const io = await here.server();
  const sockets = [];
  io.on("connection", (socket) => sockets.push(socket));
  const clients = [open(), open()];
  await Promise.all(clients.map((client) => once(client, "connect")));
  await until(() => sockets.length === 2);
  assert.deepEqual(Object.keys(io.engine.clients).sort(), clients.map((client) => client.io.engine.id).sort());
  for (const { conn } of sockets) assert.equal(io.engine.clients[conn.id], conn);
  io.engine.clients[clients[0].io.engine.id].close();
  await once(clients[0], "disconnect");
  await until(() => Object.keys(io.engine.clients).length === 1);
  await end(io);
  assert.deepEqual(io.engine.clients, {});
});

/** `query.hasOwnProperty("token")` threw, a repeated name was a list, and a second `Authorization` was joined to the first. */
test("the query and the lines of a handshake were not as Socket.IO's server has them", async () => {
  let socket;
  const io = await here.server({}, (io) => io.on("connection", (newcomer) => (socket = newcomer)));
  const headers = { "user-agent": ["one", "two"], authorization: ["Bearer a", "Bearer b"], cookie: ["a=1", "b=2"], "x-table": ["7", "8"] };
  const request = get(`${here.url}/socket.io/?EIO=4&transport=polling&table=7&table=8&sort=a+b%2B`, { headers });
  const [response] = await once(request, "response");
  const { sid } = JSON.parse((await response.setEncoding("utf8").toArray()).join("").slice(1));
  await post(here.url, sid, "40");
  await until(() => socket);
  const { handshake, request: opening } = socket;
  const { table, sort } = handshake.query;
  assert.deepEqual([table, sort, Object.getPrototypeOf(handshake.query)], ["8", "a b+", Object.prototype]);
  const { "user-agent": agent, authorization, cookie, "x-table": tables } = handshake.headers;
  assert.deepEqual([agent, authorization, cookie, tables], ["one", "Bearer a", "a=1; b=2", "7, 8"]);
  assert.deepEqual([opening.httpVersion, opening.httpVersionMajor, opening.httpVersionMinor], ["1.1", 1, 1]);
  await post(here.url, sid, "1");
  await end(io);
});

/** The first socket's admission let the second one in: the first was never said to be gone, and its worker stood still. */
test("a client that left and came back while middleware worked on it left a socket for ever", async () => {
  const io = await here.server();
  const held = [];
  const story = [];
  io.of("/a").use((socket, next) => held.push(next));
  io.of("/a").on("connection", (socket) => {
    const { length } = story;
    story.push(`in ${length}`);
    socket.on("disconnect", (reason) => story.push(`out ${length}`));
    socket.on("echo", (value, done) => done(value));
  });
  const client = open("/", { transports: ["websocket"] });
  await once(client, "connect");
  const other = client.io.socket("/a");
  await until(() => held.length === 1);
  // DISCONNECT and CONNECT, while the first is undecided.
  other.io.engine.write("1/a,");
  other.io.engine.write("0/a,");
  other.once("connect", () => story.push("back"));
  // The gateway has told of both: what the same client says later comes later.
  io.of("/probe");
  const probe = client.io.socket("/probe");
  sockets.push(probe);
  await once(probe, "connect");
  held.shift()();
  await until(() => held.length === 1);
  held.shift()();
  await until(() => story.includes("back"));
  assert.equal(await other.emitWithAck("echo", 7), 7);
  assert.deepEqual(story.slice(0, 3), ["in 0", "out 0", "in 2"]);
  other.disconnect();
  await until(() => story.includes("out 2"));
  await end(io);
});

/** Socket.IO lets nobody in whose session is closed: the second worker dropped the socket without a word, and the first had handed it over. */
for (const cause of ["a handler closed the session", "the client went while a newcomer waited"]) {
  test(`a socket that came from another worker ended without \`disconnect\`: ${cause}`, async () => {
    const story = [];
    const held = [];
    const tell = (name) => (io) => {
      for (const namespace of ["/", "/a"]) {
        io.of(namespace).on("connection", (socket) => {
          story.push(`${name} in ${namespace}`);
          socket.on("disconnect", () => story.push(`${name} out ${namespace}`));
          socket.on("end", () => socket.conn.close());
        });
      }
    };
    const first = await here.server({}, tell("first"));
    const client = open("/", { transports: ["websocket"] });
    const other = client.io.socket("/a");
    await Promise.all([once(client, "connect"), once(other, "connect")]);
    const second = await here.server({}, (io) => {
      for (const namespace of ["/a", "/b"]) io.of(namespace).use((_, next) => held.push(next));
      tell("second")(io);
    });
    await first.close();
    await until(() => story.includes("second in /") && held.length === 1);
    const over = new Promise((resolve) => client.io.engine.once("close", resolve));
    if (cause.startsWith("a handler")) {
      client.emit("end");
      await over;
    } else {
      client.io.socket("/b");
      await until(() => held.length === 2);
      client.io.engine.close();
    }
    await until(() => story.includes("second out /"));
    // Once more in a session of its own.
    await until(() => {
      held.splice(0).forEach((next) => next());
      return story.includes("second in /a");
    });
    await until(() => story.includes("second out /a"));
    assert.deepEqual(story.filter((line) => line.includes("out")).sort(), ["second out /", "second out /a"]);
    await end(second);
  });
}

/** The end of the session, sent for the socket that was left, ended there the one that had moved as well. */
test("the end of a socket that had moved was told by two workers", async () => {
  const story = [];
  let answer;
  const sockets = [];
  const tell = (name) => (io) => {
    for (const namespace of ["/", "/a"]) {
      io.of(namespace).on("connection", (socket) => {
        sockets.push(socket);
        story.push(`${name} in ${namespace}`);
        socket.on("disconnect", () => story.push(`${name} out ${namespace}`));
        socket.on("hold", (done) => (answer = done));
      });
    }
  };
  const first = await here.server({}, tell("first"));
  const client = open("/", { transports: ["websocket"] });
  const other = client.io.socket("/a");
  await Promise.all([once(client, "connect"), once(other, "connect")]);
  other.emit("hold", () => {});
  await until(() => answer);
  const second = await here.server({}, tell("second"));
  const closed = first.close();
  await until(() => story.includes("second in /"));
  // A handler that is under way still speaks to its client.
  const heard = once(client, "late");
  const moved = sockets.find(({ nsp, connected }) => nsp.name === "/" && !connected);
  moved.emit("late");
  await heard;
  client.io.engine.close();
  await closed;
  await until(() => story.includes("second out /"));
  assert.deepEqual(story, ["first in /", "first in /a", "second in /", ...story.slice(3)]);
  assert.deepEqual(story.slice(3).sort(), ["first out /a", "second out /"]);
  await end(second);
});

/** Its handler was still at work. */
test("a socket that has moved can be ended by the worker that had it", async () => {
  const first = await here.server();
  const socketOf = new Promise((resolve) => first.on("connection", resolve));
  const held = [];
  first.of("/a").on("connection", (socket) => socket.on("hold", (done) => held.push(done)));
  const client = open("/", { transports: ["websocket"] });
  const other = client.io.socket("/a");
  const socket = await socketOf;
  await once(other, "connect");
  other.emit("hold", () => {});
  await until(() => held.length === 1);
  const second = await here.server();
  const closed = first.close();
  await until(() => second.of("/").sockets.size === 1);
  const left = once(client, "disconnect");
  socket.disconnect();
  assert.deepEqual((await left)[0], "io server disconnect");
  held[0]();
  await closed;
  await end(second);
});
