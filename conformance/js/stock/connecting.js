// Connecting: ids, the auth payload, namespaces, refusals.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, connected, once, record } from "../peer/stock.js";
import { eventually, within } from "../peer/patience.js";

const refusal = (socket) => within(new Promise((resolve) => socket.once("connect_error", resolve)), "connect_error");

export function connecting(client) {
  test("connects with an id of 20 characters that is not the session's", async (t) => {
    const socket = await client.connect(t);
    assert.match(socket.id, /^[A-Za-z0-9_-]{20}$/);
    assert.match(socket.io.engine.id, /^[A-Za-z0-9_-]{20}$/);
    assert.notEqual(socket.id, socket.io.engine.id);
    assert.ok(!socket.recovered);
    const [who] = await ask(socket, "who");
    assert.equal(who.id, socket.id);
    assert.equal(who.recovered, false);
  });

  test("speaks the transports it was told to", async (t) => {
    const socket = await client.connect(t);
    const [who] = await ask(socket, "who");
    if (client.upgrades) assert.ok(client.transports.includes(who.transport), who.transport);
    else assert.equal(who.transport, client.transports[0]);
  });

  test("hands the auth payload to the server", async (t) => {
    const auth = { user: "ann", nested: { list: [1, "two", null, true] } };
    const socket = client.create(t, "/", { auth });
    const [[seen]] = await Promise.all([once(socket, "auth"), connected(socket)]);
    assert.deepEqual(seen, auth);
    const lab = await client.connect(t, "/lab", { auth: (answer) => answer({ user: "bea" }) });
    assert.deepEqual((await ask(lab, "who"))[0].auth, { user: "bea" });
  });

  test("an absent auth payload is an empty object at the server", async (t) => {
    const socket = client.create(t, "/");
    assert.deepEqual(await once(socket, "auth"), [{}]);
  });

  // Stock clients put it into no URL of WebTransport.
  const skip = client.usesWebTransport && !client.upgrades;
  test("the handshake's query reaches the server", { skip }, async (t) => {
    const socket = await client.connect(t, "/lab", { query: { token: "ä/+ &=", room: "7" } });
    const [{ query }] = await ask(socket, "who");
    assert.equal(query.token, "ä/+ &=");
    assert.equal(query.room, "7");
    assert.equal(query.EIO, "4");
  });

  test("several namespaces share one connection and have ids of their own", async (t) => {
    const lab = await client.connect(t, "/lab");
    const custom = lab.io.socket("/custom", {});
    const main = lab.io.socket("/", {});
    await Promise.all([connected(custom), connected(main)]);
    assert.equal(new Set([lab.id, custom.id, main.id, lab.io.engine.id]).size, 4);
    const [reply] = await Promise.all([once(main, "message-back"), main.emit("message", "over main")]);
    assert.deepEqual(reply, ["over main"]);
    assert.deepEqual(await ask(lab, "echo", "over lab"), ["over lab"]);
  });

  test("a namespace made on demand by its pattern greets with its name", async (t) => {
    const socket = client.create(t, "/dyn-4711");
    assert.deepEqual(await once(socket, "dyn"), ["/dyn-4711"]);
  });

  test("an unknown namespace is refused and the connection serves others", async (t) => {
    const lab = await client.connect(t, "/lab");
    for (const name of ["/nowhere", "/dyn-x", "/lab/", "/LAB"]) {
      const error = await refusal(lab.io.socket(name, {}));
      assert.equal(error.message, "Invalid namespace", name);
      assert.equal(error.data, undefined);
    }
    assert.deepEqual(await ask(lab, "echo", 1), [1]);
  });

  test("a refusal carries the middleware's message and data", async (t) => {
    const error = await refusal(client.create(t, "/forbidden"));
    assert.equal(error.message, "not authorized");
    assert.deepEqual(error.data, { code: "E_AUTH", retry: false });
  });

  test("a refusal without data has none, and the next try may succeed", async (t) => {
    const socket = client.create(t, "/lab", { auth: { reject: true } });
    const error = await refusal(socket);
    assert.equal(error.message, "rejected by token");
    assert.equal(error.data, undefined);
    assert.equal(socket.active, false);
    socket.auth = { user: "second" };
    socket.connect();
    await connected(socket);
    assert.deepEqual((await ask(socket, "who"))[0].auth, { user: "second" });
  });

  test("packets emitted before the connection stands are delivered after it", async (t) => {
    const socket = client.create(t);
    const seen = record(socket, "echo");
    for (let i = 0; i < 20; i++) socket.emit("echo", i);
    await eventually(() => seen.length === 20, "20 early echoes came");
    assert.deepEqual(seen, Array.from({ length: 20 }, (_, i) => i));
  });
}
