// Engine.IO: the handshake, its errors, and what a client may vary.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { request } from "../peer/http.js";
import { within } from "../peer/patience.js";
import { Polling } from "../peer/polling.js";
import { openFor } from "../peer/session.js";
import { isReference, MAX_PAYLOAD, PING_INTERVAL, PING_TIMEOUT, strictUrl } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

const OPEN_KEYS = ["maxPayload", "pingInterval", "pingTimeout", "sid", "upgrades"];
const POLLING = "EIO=4&transport=polling";

function assertOpen(handshake, upgrades) {
  assert.deepEqual(Object.keys(handshake).sort(), OPEN_KEYS);
  assert.match(handshake.sid, /^[A-Za-z0-9_-]{20}$/);
  assert.deepEqual(handshake.upgrades, upgrades);
  assert.equal(handshake.pingInterval, PING_INTERVAL);
  assert.equal(handshake.pingTimeout, PING_TIMEOUT);
  assert.equal(handshake.maxPayload, MAX_PAYLOAD);
}

for (const path of ["/socket.io/", "/engine.io/"]) {
  describe(`handshake at ${path}`, () => {
    test("polling: an open packet that offers the upgrade", async (t) => {
      const session = await openFor(t, Polling, { path, from: strictUrl });
      assertOpen(session.handshake, ["websocket"]);
    });

    test("polling: the answer is uncached UTF-8 text of stated length", async () => {
      const answer = await request(`${path}?${POLLING}`);
      assert.equal(answer.status, 200);
      assert.match(answer.headers["content-type"], /^text\/plain; ?charset=utf-8$/i);
      assert.equal(answer.headers["cache-control"], "no-store");
      assert.equal(Number(answer.headers["content-length"]), answer.bytes.length);
      assert.equal(answer.headers["set-cookie"], undefined);
    });

    test("websocket: the open packet is the first text frame and offers nothing", async (t) => {
      const session = await openFor(t, WebSocketSession, { path, from: strictUrl });
      assertOpen(session.handshake, []);
    });

    test("every session gets an id of its own", async (t) => {
      const sessions = await Promise.all(Array.from({ length: 20 }, (_, i) => openFor(t, i % 2 ? Polling : WebSocketSession, { path })));
      assert.equal(new Set(sessions.map(({ sid }) => sid)).size, 20);
    });

    test("unknown query parameters, order and a cache buster do not matter", async () => {
      for (const query of [`t=abc123&${POLLING}&x=%20y`, `transport=polling&EIO=4`, `${POLLING}&t`, `${POLLING}&a=1&a=2`]) {
        const answer = await request(`${path}?${query}`);
        assert.equal(answer.status, 200, query);
        assert.ok(answer.body.startsWith("0{"), query);
      }
    });
  });

  describe(`refused handshakes at ${path}`, () => {
    const refusals = [
      ["no parameters at all", "", { code: 0, message: "Transport unknown" }],
      ["no transport", "?EIO=4", { code: 0, message: "Transport unknown" }],
      ["an unknown transport", "?EIO=4&transport=carrier-pigeon", { code: 0, message: "Transport unknown" }],
      ["a transport named like an object's innards", "?EIO=4&transport=constructor", { code: 0, message: "Transport unknown" }],
      ["an unknown session id", `?${POLLING}&sid=abcdefghijklmnopqrst`, { code: 1, message: "Session ID unknown" }],
      ["a short session id", `?${POLLING}&sid=abc`, { code: 1, message: "Session ID unknown" }],
      ["websocket without an upgrade request", "?EIO=4&transport=websocket", { code: 3, message: "Bad request" }],
      ["protocol 3", "?EIO=3&transport=polling", { code: 5, message: "Unsupported protocol version" }],
      ["protocol 2", "?EIO=2&transport=polling", { code: 5, message: "Unsupported protocol version" }],
      ["protocol abc", "?EIO=abc&transport=polling", { code: 5, message: "Unsupported protocol version" }],
      ["no protocol version", "?transport=polling", { code: 5, message: "Unsupported protocol version" }],
      ["an unknown transport counts before an unknown session", "?EIO=4&transport=pigeon&sid=abcdefghijklmnopqrst", { code: 0, message: "Transport unknown" }],
    ];
    for (const [what, query, error] of refusals) {
      test(`GET: ${what} is code ${error.code}`, async () => assertRefusal(await request(path + query), error));
    }

    for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
      test(`${method} without a session is code 2`, async () => {
        assertRefusal(await request(`${path}?${POLLING}`, { method }), { code: 2, message: "Bad handshake method" });
      });
    }

    test("POST to an unknown session is code 1", async () => {
      const answer = await request(`${path}?${POLLING}&sid=abcdefghijklmnopqrst`, { method: "POST", body: "4x" });
      assertRefusal(answer, { code: 1, message: "Session ID unknown" });
    });

    test("a strange method on a living session is refused and does no harm", async (t) => {
      const session = await openFor(t, Polling, { path });
      const answer = await request(session.target(), { method: "PUT", body: "4x" });
      // Node answers 500; 405 or 400 say it better.
      assert.ok(answer.status >= 400, `PUT was answered ${answer.status}`);
    });
  });

  describe(`refused WebSockets at ${path}`, () => {
    const refusals = [
      ["an unknown transport", "EIO=4&transport=pigeon", "Transport unknown"],
      ["no transport", "EIO=4", "Transport unknown"],
      ["an unknown session id", "EIO=4&transport=websocket&sid=abcdefghijklmnopqrst", "Session ID unknown"],
    ];
    for (const [what, query, message] of refusals) {
      test(`${what} is 400 with the bare message`, async () => {
        const error = await WebSocketSession.dial(`${path}?${query}`).then(() => assert.fail("it was accepted"), (e) => e);
        assert.equal(error.status, 400);
        assert.equal(error.body, message);
      });
    }

    for (const [what, query] of [["protocol 3", "EIO=3&transport=websocket"], ["no protocol version", "transport=websocket"], ["transport=polling", "EIO=4&transport=polling"]]) {
      test(`${what} gets no session and no hang`, async () => {
        const outcome = await refusedOrCut(`${path}?${query}`);
        // Node accepts with 101 and cuts; a plain 400 tells the client more.
        if (isReference) assert.ok([101, 400].includes(outcome.status));
        else assert.equal(outcome.status, 400);
      });
    }
  });
}

test("the path needs its final slash, and what follows is ignored", async () => {
  assert.equal((await request(`/socket.io?${POLLING}`)).status, 404);
  const answer = await request(`/socket.io/whatever?${POLLING}`);
  assert.equal(answer.status, 200);
  assert.ok(answer.body.startsWith("0{"));
});

test("other paths are 404", async () => {
  for (const path of ["/nothing-here", "/socket.iox/", "/engine.i/"]) {
    assert.equal((await request(`${path}?${POLLING}`)).status, 404, path);
  }
});

test("a session belongs to its endpoint", async (t) => {
  const session = await openFor(t, Polling, { path: "/socket.io/" });
  const answer = await request(`/engine.io/?${POLLING}&sid=${session.sid}`);
  assertRefusal(answer, { code: 1, message: "Session ID unknown" });
});

test("a request that names another protocol version than its session's is code 3", async (t) => {
  const session = await openFor(t, Polling);
  assertRefusal(await request(session.target({ EIO: "3" })), { code: 3, message: "Bad request" });
});

function assertRefusal(answer, error) {
  assert.equal(answer.status, 400);
  assert.match(answer.headers["content-type"], /^application\/json/);
  assert.deepEqual(JSON.parse(answer.body), error);
}

/** Dials; a server that says 101 must cut the WebSocket right away and send no open packet. */
async function refusedOrCut(path) {
  try {
    const session = await WebSocketSession.dial(path);
    await within(session.closed, "the cut");
    assert.deepEqual(session.queue, []);
    return { status: 101 };
  } catch (error) {
    if (error.status === undefined) throw error;
    return error;
  }
}
