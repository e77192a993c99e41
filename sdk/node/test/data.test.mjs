// `socket.data`: programs keep in it what they like, and other workers get what of it is JSON.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { stage, until } from "./stage.mjs";

let here;

before(async () => {
  here = await stage();
});

after(() => here.close());

/** What JSON cannot have was thrown where the worker speaks to its gateway: that ended the process, or held up the commands of all sockets. */
test("a timer or a BigInt in socket.data ended the worker", async (t) => {
  const warnings = [];
  const warned = ({ name, message }) => name === "SockeyeWarning" && warnings.push(message);
  process.on("warning", warned);
  t.after(() => process.off("warning", warned));
  const own = [];
  const first = await here.server({}, (io) =>
    io.on("connection", (socket) => {
      socket.on("set", (done) => {
        const timer = setInterval(() => {}, 60_000).unref();
        // Timers of one length know each other.
        const other = setInterval(() => {}, 60_000).unref();
        Object.assign(socket.data, { name: "ann", count: 1n, timer, later: 2n });
        own.push(timer, other);
        done(socket.data.name);
      });
      socket.on("change", (done) => {
        Object.assign(socket.data, { name: "bob", later: 3 });
        done(typeof socket.data.count);
      });
      socket.on("whole", (done) => ((socket.data = 5n), done()));
    }),
  );
  t.after(() => own.forEach(clearInterval));
  const client = here.open("/", { transports: ["websocket"] });
  await once(client, "connect");
  assert.equal(await client.timeout(5_000).emitWithAck("set"), "ann");
  const second = await here.server();
  const [there] = await second.fetchSockets();
  assert.deepEqual(there.data, { name: "ann" });
  assert.equal(await client.timeout(5_000).emitWithAck("change"), "bigint");
  // A member that was none and is JSON now goes with it.
  assert.deepEqual((await second.fetchSockets())[0].data, { name: "bob", later: 3 });
  await client.timeout(5_000).emitWithAck("whole");
  assert.deepEqual((await second.fetchSockets())[0].data, { name: "bob", later: 3 });
  await until(() => warnings.length > 0);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0], /cannot hand on socket\.data\.count, socket\.data\.timer, socket\.data\.later: it is no JSON/);
  client.disconnect();
  await Promise.all([first.close(), second.close()]);
});
