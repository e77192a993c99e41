// Socket.IO: joining namespaces, and what may not happen before.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { request } from "../peer/http.js";
import { ack, connect, disconnect, event, read } from "../peer/packet.js";
import { sleep, within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor } from "../peer/session.js";
import { REFUSED_MS } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

const ID = /^[A-Za-z0-9_-]{20}$/;

/** The server must end the session; packets it sends before do not matter here. */
const assertEnds = (session, what) => within(session.ended(), `the session to end after ${what}`, REFUSED_MS);

/** Sends what the server refuses; over polling the POST itself may be cut off. */
const sendRefused = (session, ...packets) => session.send(...packets).catch(() => {});

for (const Transport of [Polling, WebSocketSession]) {
  describe(`connecting over ${Transport.transport}`, () => {
    test("nothing is implicit: no packet comes before a CONNECT", async (t) => {
      const session = await openFor(t, Transport);
      await sleep(50);
      await session.send(connect("/lab"));
      // Were the main namespace joined by itself, its greeting would come first.
      assert.equal((await session.read()).namespace, "/lab");
    });

    test("the reply is `40{\"sid\"}` and holds nothing else", async (t) => {
      const session = await openFor(t, Transport);
      await session.send(connect("/"));
      const text = await session.next();
      assert.match(text, /^40\{"sid":"[A-Za-z0-9_-]{20}"\}$/);
      await session.send(connect("/lab"));
      while (true) {
        const reply = await session.next();
        if (read(reply).type !== 0) continue;
        assert.match(reply, /^40\/lab,\{"sid":"[A-Za-z0-9_-]{20}"\}$/);
        break;
      }
    });

    test("each namespace has an id of its own, none is the session's", async (t) => {
      const session = await openFor(t, Transport);
      const ids = [session.sid];
      for (const namespace of ["/", "/custom", "/lab"]) ids.push((await session.join(namespace)).sid);
      for (const id of ids) assert.match(id, ID);
      assert.equal(new Set(ids).size, 4);
    });

    test("no auth payload is `{}` at the application, an object arrives as it was", async (t) => {
      for (const [packet, expected] of [["40", {}], ["40{}", {}], ['40{"token":"123","n":[1]}', { token: "123", n: [1] }]]) {
        const session = await openFor(t, Transport);
        await session.send(packet);
        assert.equal((await session.read()).type, 0);
        assert.deepEqual((await session.read()).data, ["auth", expected], packet);
      }
    });

    test("a namespace may end with its comma or with the packet", async (t) => {
      for (const packet of ["40/custom", "40/custom,"]) {
        const session = await openFor(t, Transport);
        await session.send(packet);
        const reply = await session.read();
        assert.deepEqual([reply.type, reply.namespace], [0, "/custom"], packet);
        assert.deepEqual((await session.read()).data, ["auth", {}]);
      }
    });

    test("auth payload and namespace together", async (t) => {
      const session = await openFor(t, Transport);
      await session.send('40/custom,{"token":"abc"}');
      assert.equal((await session.read()).type, 0);
      assert.deepEqual((await session.read()).data, ["auth", { token: "abc" }]);
    });

    test("a query string in the namespace is part of its name", async (t) => {
      const session = await openFor(t, Transport);
      await session.send("40/custom?a=b,");
      assert.deepEqual(await session.next(), '44/custom?a=b,{"message":"Invalid namespace"}');
    });

    test("an unknown namespace is answered 44 and the transport serves others", async (t) => {
      const session = await openFor(t, Transport);
      for (const name of ["/random", "/dyn-", "/dyn-1x", "/Custom", "/custom/"]) {
        await session.send(connect(name));
        assert.equal(await session.next(), `44${name},{"message":"Invalid namespace"}`);
      }
      await session.join("/custom");
    });

    test("a refusal by middleware carries message and data", async (t) => {
      const session = await openFor(t, Transport);
      await session.send(connect("/forbidden"));
      const refusal = await session.read();
      assert.deepEqual([refusal.type, refusal.namespace], [4, "/forbidden"]);
      assert.deepEqual(refusal.data, { message: "not authorized", data: { code: "E_AUTH", retry: false } });
    });

    test("a refusal without data has no `data` key, and a second try on the same session may pass", async (t) => {
      const session = await openFor(t, Transport);
      await session.send(connect("/lab", { reject: true }));
      assert.equal(await session.next(), '44/lab,{"message":"rejected by token"}');
      assert.match((await session.join("/lab", { user: "ann" })).sid, ID);
      const [who] = await session.ask("/lab", 0, "who");
      assert.deepEqual(who.auth, { user: "ann" });
    });

    test("a recovering client meets a server without recovery: fresh id, no error, no offsets", async (t) => {
      const session = await openFor(t, Transport);
      await session.send(connect("/lab", { pid: "abcdefghijklmnopqrst", offset: "Q7_ddRX", user: "ann" }));
      assert.match(await session.next(), /^40\/lab,\{"sid":"[A-Za-z0-9_-]{20}"\}$/);
      await session.emit("/lab", "echo", 1);
      assert.equal(await session.next(), '42/lab,["echo",1]');
      assert.equal((await session.ask("/lab", 0, "who"))[0].recovered, false);
    });

    test("several CONNECTs in flight are all answered", async (t) => {
      const session = await openFor(t, Transport);
      await session.send(connect("/dyn-1"), connect("/dyn-2"), connect("/nope"), connect("/dyn-3"));
      const outcome = {};
      while (Object.keys(outcome).length < 4) {
        const packet = await session.read();
        if (packet.type === 0 || packet.type === 4) outcome[packet.namespace] = packet.type;
      }
      assert.deepEqual(outcome, { "/dyn-1": 0, "/dyn-2": 0, "/nope": 4, "/dyn-3": 0 });
    });

    test("a second CONNECT to a joined namespace closes the connection", async (t) => {
      const session = await openFor(t, Transport);
      await session.join("/lab");
      await sendRefused(session, connect("/lab"));
      await assertEnds(session, "a second CONNECT");
    });

    test("an event before any CONNECT closes the connection", async (t) => {
      const session = await openFor(t, Transport);
      await sendRefused(session, event("/", ["message", 1]));
      await assertEnds(session, "an event without CONNECT");
    });

    for (const [what, packet] of [
      ["an event", event("/custom", ["message", 1])],
      ["an ack", ack("/custom", 0, [])],
      ["a disconnect", disconnect("/custom")],
    ]) {
      test(`${what} for a namespace never joined closes the connection or is ignored, as Node or kinder`, async (t) => {
        const session = await openFor(t, Transport);
        await session.join("/lab");
        await sendRefused(session, packet);
        await endsOrServes(session);
      });
    }

    test("an event right behind the CONNECT, before its reply, is never lost in silence", async (t) => {
      const session = await openFor(t, Transport);
      await sendRefused(session, connect("/lab"), event("/lab", ["echo", "hasty"], 0));
      // Node closes the connection; a kinder server queues the event and answers it.
      const outcome = await within(Promise.race([session.ended().then(() => "ended"), hasty(session)]), "an answer or the end", REFUSED_MS);
      assert.ok(["ended", "answered"].includes(outcome), outcome);
    });

    test("CONNECT_ERROR from a client closes the connection", async (t) => {
      const session = await openFor(t, Transport);
      await session.join("/lab");
      await sendRefused(session, '44/lab,{"message":"no"}');
      await assertEnds(session, "a CONNECT_ERROR");
    });
  });
}

test("the server takes X-Forwarded-For as a mere header: the session serves whoever knows its id", async (t) => {
  const session = await openFor(t, Polling, { headers: { "x-forwarded-for": "203.0.113.7" } });
  const answer = await request(session.target(), { method: "POST", body: connect("/lab"), headers: { "x-forwarded-for": "198.51.100.1, 203.0.113.7" } });
  assert.equal(answer.body, "ok");
  assert.equal((await session.read()).namespace, "/lab");
});

async function hasty(session) {
  for (;;) {
    const text = await session.next().catch(() => undefined);
    if (text === undefined) return "ended";
    if (text === '43/lab,0["hasty"]') return "answered";
  }
}

/** The connection is closed, or everything else goes on: no third way. */
async function endsOrServes(session) {
  try {
    assert.deepEqual(await session.ask("/lab", 5, "echo", "on"), ["on"]);
  } catch (error) {
    if (error.code === "ERR_ASSERTION") throw error;
    await assertEnds(session, "a packet for a namespace never joined");
  }
}
