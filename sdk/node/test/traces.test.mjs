// Traces: a collector of the test reads which spans the gateway makes of what a worker says.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { traceparent } from "@sockeye/server";
import { stage, until } from "./stage.mjs";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
/** The first fields of a span, in the order of their tags: trace_id, span_id, parent_span_id, name. */
const SPAN = /\x0a\x10(.{16})\x12\x08(.{8})\x22\x08(.{8})\x2a.([a-z]+ [a-z/]+)/gs;

/** Notes spans as [trace, span, span above, name]. */
async function collector() {
  const spans = [];
  const hex = (text) => Buffer.from(text, "latin1").toString("hex");
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString("latin1");
    for (const [, trace, span, above, name] of body.matchAll(SPAN)) spans.push([hex(trace), hex(span), hex(above), name]);
    response.end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { spans, server, config: `[traces]\nendpoint = "http://127.0.0.1:${server.address().port}/v1/traces"\none_in = 0` };
}

test("the trace of an event goes on in what comes of it", async (t) => {
  const { spans, server, config } = await collector();
  t.after(() => (server.closeAllConnections(), server.close()));
  const here = await stage("", config);
  t.after(() => here.close());
  await here.server({}, (io) =>
    io.on("connection", (socket) => {
      socket.emit("hello", traceparent());
      socket.on("order", async (done) => {
        const trace = traceparent();
        await sleep(1);
        // What a client answers is heard in the trace of the question.
        const answer = await socket.emitWithAck("question");
        socket.emit("question", () => socket.emit("news", traceparent()));
        socket.join("table");
        done(trace, answer, traceparent());
      });
    }),
  );
  const open = async (options) => {
    const client = here.open("/", { transports: ["websocket"], ...options });
    client.on("question", (done) => done("soup"));
    t.after(() => client.disconnect());
    const [hello] = await once(client, "hello");
    return { client, hello };
  };
  const traced = await open({ query: { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` } });
  const plain = await open({});
  assert.match(traced.hello, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
  assert.equal(plain.hello, null);
  const ask = (client) => new Promise((resolve) => client.emit("order", (...values) => resolve(values)));
  const [seen, answer, later] = await ask(traced.client);
  assert.match(seen, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
  assert.notEqual(seen, traced.hello);
  assert.deepEqual([answer, later], ["soup", seen]);
  assert.deepEqual(await ask(plain.client), [null, "soup", null]);
  const spanOf = (trace) => trace.split("-")[2];
  const has = (name, above) => spans.some(([, , ...rest]) => rest[0] === spanOf(above) && rest[1] === name);
  for (const name of ["decision", "emit"]) await until(() => has(`command ${name}`, traced.hello));
  for (const name of ["ack", "join", "emit"]) await until(() => has(`command ${name}`, seen));
  assert.ok(spans.every(([trace]) => trace === TRACE));
});
