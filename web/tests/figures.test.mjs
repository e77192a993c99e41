// The console's arithmetic without a page: plots, figures, metrics, addresses.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { load } from "./compiled.mjs";

const { areaPath, linePath, peaks, roundTop, timeTicks } = await load("console/src/scale.ts");
const format = await load("console/src/format.ts");
const { program } = await load("console/src/code.ts");
const { parseMetrics, Reading } = await load("console/src/metrics.ts");
const { Links } = await load("console/src/links.ts");

const point = (t, sessions) => ({ t, sessions });

describe("a plot", () => {
  test("shows the largest second of each step, and nothing where nothing is known", () => {
    const points = [point(0, 1), point(900, 7), point(1000, 2), point(3000, null), point(9000, 5)];
    const values = peaks(points, (p) => p.sessions, { from: 0, to: 4000 }, 4);
    assert.deepEqual(values, [7, 2, null, null]);
  });

  test("breaks its line where a value is missing", () => {
    const [x, y] = [(step) => step, (value) => value];
    assert.equal(linePath([1, 2, null, 3], x, y), "M0.0 1.0L1.0 2.0M3.0 3.0");
    assert.equal(
      areaPath([1, null, 3], x, y),
      "M0.0 0.0L0.0 1.0L0.0 0.0ZM2.0 0.0L2.0 3.0L2.0 0.0Z",
    );
  });

  test("has a round number on top that holds all values", () => {
    const tops = [0, 0.13, 1, 7, 17, 999, 12_001].map((value) => roundTop(value));
    assert.deepEqual(tops, [1, 0.2, 1, 8, 20, 1000, 20_000]);
    const sizes = [0, 1023, 1025, 300 * 1024 ** 2].map((value) => roundTop(value, 2) / 1024);
    assert.deepEqual(sizes, [1, 1, 2, 512 * 1024]);
  });

  test("names full minutes, not more than fit", () => {
    const ticks = timeTicks({ from: 30_000, to: 330_000 }, 3, 0);
    assert.deepEqual(ticks, [120_000, 240_000]);
    const hour = 3_600_000;
    // In Nepal the clocks stand at a full hour when it is a quarter past in London.
    const inNepal = timeTicks({ from: 10 * hour, to: 11 * hour }, 2, -345);
    assert.deepEqual(
      inNepal.map((t) => new Date(t).toISOString().slice(11, 16)),
      ["10:15", "10:45"],
    );
  });
});

describe("figures", () => {
  test("are written for people", () => {
    assert.deepEqual([0, 0.4, 9.96, 48_213].map(format.rate), ["0", "0.4", "10", "48,213"]);
    assert.deepEqual([0, 1023, 1536, 220 * 1024 ** 2].map(format.bytes), [
      "0 B",
      "1,023 B",
      "1.5 KiB",
      "220 MiB",
    ]);
    assert.deepEqual([null, 0, 0.18, 14.02, 45_012].map(format.millis), [
      "–",
      "0 ms",
      "0.18 ms",
      "14.0 ms",
      "45.0 s",
    ]);
    assert.deepEqual([0.2, 5, 50].map(format.atMost), ["≤ 0.20 ms", "≤ 5 ms", "≤ 50 ms"]);
    assert.deepEqual([500, 2000].map(format.above), ["> 500 ms", "> 2 s"]);
    assert.deepEqual(["64.0 MiB", "1.00", "10"].map(format.trimmed), ["64 MiB", "1", "10"]);
    assert.deepEqual([0, 0.051, 0.86].map(format.percent), ["0 %", "5.1 %", "86 %"]);
    assert.deepEqual([7, 61, 7_260, 93_211].map(format.duration), [
      "7 s",
      "1 min 1 s",
      "2 h 1 min",
      "1 d 1 h",
    ]);
    assert.deepEqual(
      [0, 1, 2].map((n) => format.counted(n, "room")),
      ["0 rooms", "1 room", "2 rooms"],
    );
  });
});

describe("metrics", () => {
  const text = (events, slow) => `# TYPE b_events_total counter
b_events_total ${events}
b_refused_total{reason="a \\"b\\\\"} 3
b_seconds_bucket{le="0.1"} ${events - slow}
b_seconds_bucket{le="0.5"} ${events}
b_seconds_bucket{le="+Inf"} ${events}
other_total 1
`;
  const read = (events, slow, at) => new Reading(parseMetrics(text(events, slow), "b_"), at);

  test("are read with their labels, and only those that are asked for", () => {
    const { samples } = read(10, 0, 0);
    assert.equal(samples.length, 5);
    assert.deepEqual(samples[1], {
      name: "b_refused_total",
      labels: { reason: 'a "b\\' },
      value: 3,
    });
  });

  test("have rates between two readings, also after a restart", () => {
    const sample = { name: "b_events_total", labels: {} };
    const first = read(100, 0, 0);
    assert.equal(first.perSecond(sample, undefined), null);
    assert.equal(read(150, 0, 5000).perSecond(sample, first), 10);
    assert.equal(read(20, 0, 5000).perSecond(sample, first), 4);
  });

  test("have quantiles of what came since", () => {
    const first = read(100, 100, 0);
    assert.equal(read(200, 100, 5000).quantile("b_seconds", 0.99, first), 0.1);
    assert.equal(read(200, 150, 5000).quantile("b_seconds", 0.99, first), 0.5);
    assert.equal(first.quantile("b_seconds", 0.99, first), null);
    const slow = new Reading(
      parseMetrics(text(100, 0).replace('"+Inf"} 100', '"+Inf"} 200'), "b_"),
      0,
    );
    assert.equal(slow.quantile("b_seconds", 0.99, undefined), Number.POSITIVE_INFINITY);
  });
});

describe("a call as a program", () => {
  const PROGRAMS = {
    curl: ["bash", "call.sh"],
    node: ["node", "call.mjs"],
    python: ["python3", "call.py"],
  };
  const folder = mkdtempSync(join(tmpdir(), "sockeye-programs-"));

  for (const [language, [interpreter, file]] of Object.entries(PROGRAMS))
    test(`sends what the page sends, to the byte, in ${language}`, async () => {
      const heard = [];
      const server = createServer(async (request, response) => {
        const parts = [];
        for await (const part of request) parts.push(part);
        heard.push([request.url, request.headers.authorization, Buffer.concat(parts).toString()]);
        response.setHeader("Content-Type", "application/json");
        response.end("{}");
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
      globalThis.location = { origin: `http://127.0.0.1:${server.address().port}` };
      const args = `[1234567890123456789, 1e400, 1.0, {"__proto__": 1},\n "it's \\"$HOME\\" \\\\ \\n 🐟!"]`;
      const body = `{"event": "news", "args": ${args}}`;
      writeFileSync(join(folder, file), program(language, "/v1/emit", body));
      const env = { PATH: process.env.PATH, SOCKEYE_API_KEY: "sockeye_key" };
      await promisify(execFile)(interpreter, [join(folder, file)], { env });
      server.close();
      assert.deepEqual(heard, [["/v1/emit", "Bearer sockeye_key", body]]);
    });

  test("does not call without a key in curl", async () => {
    globalThis.location = { origin: "http://127.0.0.1:9" };
    writeFileSync(join(folder, "call.sh"), program("curl", "/v1/emit", "{}"));
    const env = { PATH: process.env.PATH };
    await assert.rejects(
      promisify(execFile)("bash", [join(folder, "call.sh")], { env }),
      /SOCKEYE_API_KEY: has to be an API key/,
    );
  });
});

describe("links of nodes", () => {
  const line = (number, more = {}) => ({
    number,
    state: "ready",
    sessions: 1,
    leaving: 0,
    ...more,
  });
  const engine = {
    name: "Redis",
    up: true,
    round_trip_ms: 0.4,
    waiting_bytes: 0,
    repairs: 0,
    lost: 0,
  };
  const heard = (to, received, more = {}) => ({
    ...{ to, silent_ms: 100, received, gaps: 0, lost: 0, relayed: 0 },
    ...more,
  });
  const node = (number, others, more = {}) => ({
    ...{ node: number, cpu: 0.1, cores: 2, engine, others, backends: [], bridges: [] },
    ...more,
  });

  test("have rates from the second answer on, also when a node began anew", () => {
    const links = new Links();
    links.take([line(1), line(2)], [node(1, [heard(2, 1000)])], 0);
    assert.equal(links.heard(1), null);
    links.take([line(1), line(2)], [node(1, [heard(2, 1030)])], 3000);
    assert.equal(links.heard(1), 10);
    links.take([line(1), line(2)], [node(1, [heard(2, 5)])], 6000);
    assert.equal(links.heard(1), null);
  });

  test("name what is wrong in words: not heard, silent, slow, away, lost, without a worker", () => {
    const links = new Links();
    const others = [heard(2, 9, { silent_ms: 4200, gaps: 1, lost: 3, relayed: 7 })];
    const backends = [{ name: "kitchen", workers: 0, links_of_shards: 0 }];
    const slow = node(1, others, {
      backends,
      engine: { ...engine, round_trip_ms: 250, repairs: 2 },
    });
    const cut = node(2, [], { engine: { ...engine, up: false, round_trip_ms: null } });
    links.take([line(1), line(2), line(3, { state: "silent" })], [slow, cut], 0);
    const told = links.rows().map(({ from, to, state, figures }) => [from, to, state, figures]);
    assert.deepEqual(told, [
      ["Node 1", "Redis", "slow", "250 ms there and back, 2 frames sent again"],
      ["Node 1", "Node 2", "silent for 4 s", "7 connections relayed, 1 gap found, 3 messages lost"],
      ["Node 1", "Node 3", "not heard", "–"],
      ["Node 1", "kitchen", "none up", "–"],
      ["Node 2", "Redis", "away", "–"],
      ["Node 2", "Node 1", "not heard", "–"],
      ["Node 2", "Node 3", "not heard", "–"],
    ]);
    assert.deepEqual(links.relays(), [{ from: 1, to: 2, count: 7 }]);
    assert.deepEqual(
      links.lines().map(({ tone, above }) => [tone, above]),
      [
        ["warn", "250 ms"],
        ["bad", "away"],
        ["bad", "silent"],
      ],
    );
  });

  test("of many nodes are only told where there is something to tell", () => {
    const links = new Links();
    const numbers = Array.from({ length: 30 }, (_, n) => n);
    const others = (own) => numbers.filter((to) => to !== own).map((to) => heard(to, 1));
    const all = numbers.map((own) => node(own, others(own)));
    all[4].others[7].silent_ms = 9000;
    links.take(
      numbers.map((number) => line(number)),
      all,
      0,
    );
    const pairs = links.rows().filter(({ to }) => to.startsWith("Node"));
    assert.deepEqual(
      pairs.map(({ from, state }) => [from, state]),
      [["Node 4", "silent for 9 s"]],
    );
  });
});
