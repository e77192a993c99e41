// CORS with `origin: *`: the headers that let pages of any site poll.
import assert from "node:assert/strict";
import { test } from "node:test";
import { request } from "../peer/http.js";
import { Polling } from "../peer/polling.js";
import { openFor } from "../peer/session.js";
import { MAX_PAYLOAD } from "../peer/target.js";
import { WebSocketSession } from "../peer/websocket.js";

const origin = "http://elsewhere.example";
const anyOrigin = (answer, what) => assert.equal(answer.headers["access-control-allow-origin"], "*", what);

test("handshake, poll and POST allow any origin, without credentials", async (t) => {
  const session = await openFor(t, Polling, { headers: { origin } });
  const handshake = await request("/socket.io/?EIO=4&transport=polling", { headers: { origin } });
  anyOrigin(handshake, "handshake");
  assert.equal(handshake.headers["access-control-allow-credentials"], undefined);
  anyOrigin(await session.post("40/lab,", { origin, "content-type": "text/plain" }), "POST");
  anyOrigin(await session.get({ origin }), "poll");
});

test("errors carry the header too, or a page could not read them", async (t) => {
  const session = await openFor(t, Polling);
  for (const query of ["", "?EIO=3&transport=polling", "?EIO=4&transport=polling&sid=abcdefghijklmnopqrst"]) {
    const answer = await request(`/socket.io/${query}`, { headers: { origin } });
    assert.equal(answer.status, 400);
    anyOrigin(answer, query);
  }
  const large = await session.post("4".repeat(MAX_PAYLOAD + 1), { origin, "content-type": "text/plain" });
  assert.equal(large.status, 413);
  anyOrigin(large, "413");
});

test("the WebSocket handshake's answer carries it", async (t) => {
  const session = await openFor(t, WebSocketSession, { headers: { origin } });
  anyOrigin(session.response, "101");
});

test("a preflight is answered 204 with the methods, echoing the headers asked for", async () => {
  const headers = { origin, "access-control-request-method": "POST", "access-control-request-headers": "x-custom,content-type" };
  const answer = await request("/socket.io/?EIO=4&transport=polling", { method: "OPTIONS", headers });
  assert.equal(answer.status, 204);
  assert.equal(answer.body, "");
  anyOrigin(answer, "preflight");
  const methods = answer.headers["access-control-allow-methods"].split(/, */);
  for (const method of ["GET", "POST"]) assert.ok(methods.includes(method), `${methods}`);
  assert.equal(answer.headers["access-control-allow-headers"], "x-custom,content-type");
  assert.match(answer.headers.vary ?? "", /Access-Control-Request-Headers/i);
});

test("a preflight never becomes a session, and an unknown session does not matter to it", async () => {
  const answer = await request("/socket.io/?EIO=4&transport=polling&sid=abcdefghijklmnopqrst", { method: "OPTIONS", headers: { origin, "access-control-request-method": "POST" } });
  assert.equal(answer.status, 204);
});
