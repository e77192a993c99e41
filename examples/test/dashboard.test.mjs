// The dashboard in Chromium: figures come, go old, and have no gap after a lost connection.
import assert from "node:assert/strict";
import { test } from "node:test";
import { WAIT_MS, newVisitor, onSockeye, openPage } from "./browser.mjs";

const ROOMS = ["cpu", "memory", "load", "delay"];
const visit = async (url) => openPage(await newVisitor(), url);
const isAll = (page, selector) =>
  page.waitForFunction(([wanted, count]) => document.querySelectorAll(wanted).length === count, [`article${selector}`, ROOMS.length]);
const isLive = (page) => isAll(page, ":not(.stale)");
const isLost = (page) => page.waitForSelector("#state.lost");
/** When its measurements were made, oldest first. The page's script declares the cards. */
const times = (page, room = "cpu") => page.evaluate(`cards[${JSON.stringify(room)}].points.map(({ at }) => at)`);
const hasSince = (page, count, at) => page.waitForFunction(`cards.cpu.points.filter((point) => point.at > ${at}).length >= ${count}`);

async function open() {
  const { stage, urls } = await onSockeye("dashboard/index.js");
  const pages = await Promise.all(urls.map(visit));
  await Promise.all(pages.map(isLive));
  return { stage, urls, pages };
}

test("the dashboard shows figures and a line for each sensor, at once what was measured before", async () => {
  const { urls, pages: [page, other] } = await open();
  await Promise.all([page, other].map((one) => hasSince(one, 5, 0)));
  for (const room of ROOMS) {
    const card = page.locator(`[data-room=${room}]`);
    assert.match(await card.locator("output").textContent(), /^\d+(\.\d+)?$/);
    // A move and at least four lines, without gaps.
    assert.match(await card.locator(".line").getAttribute("d"), /^M[\d.]+ [\d.]+(L[\d.]+ [\d.]+){4,}$/);
  }
  // A gateway keeps what it hears: the second one from its first visitor on.
  const before = await times(other);
  const late = await visit(urls[1]);
  await isLive(late);
  const known = await times(late);
  for (const at of before.slice(-30)) assert.ok(known.includes(at), `${at} is not in ${known}`);
});

test("figures of the dashboard go old when their program stands still, and come back with it", async () => {
  const { stage, pages } = await open();
  const { pid } = stage.workers[0];
  process.kill(pid, "SIGSTOP");
  for (const page of pages) {
    await isAll(page, ".stale");
    assert.match(await page.locator("[data-room=cpu] .age").textContent(), /^silent for \d+ s$/);
    // The stream itself is well.
    assert.equal(await page.textContent("#state"), "Live");
  }
  process.kill(pid, "SIGCONT");
  await Promise.all(pages.map(isLive));
  await stage.workers[0].kill();
  const last = Math.max(...(await times(pages[0])));
  await Promise.all(pages.map((page) => hasSince(page, 3, last)));
});

test("a dashboard that was cut off gets what it missed", async () => {
  const { stage, urls, pages: [page, other] } = await open();
  const [door] = stage.fronts;
  door.close();
  door.closeAllConnections();
  await isLost(page);
  const last = Math.max(...(await times(page)));
  await hasSince(other, 8, last);
  const during = (await times(other)).filter((at) => at > last);
  assert.deepEqual((await times(page)).filter((at) => at > last), [], "the page heard while it was cut off");
  door.listen(new URL(urls[0]).port, "127.0.0.1");
  await page.waitForFunction(`cards.cpu.points.some((point) => point.at === ${during.at(-1)})`);
  const after = await times(page);
  for (const at of during) assert.ok(after.includes(at), `${at} is not in ${after}`);
  assert.deepEqual(after, [...new Set(after)].sort((a, b) => a - b));
  await isLive(page);
});

test("a gateway is killed: the dashboard comes back by itself, and the program goes on with the other one", async () => {
  const { stage, pages: [page, other] } = await open();
  const loads = await page.evaluate("performance.timeOrigin");
  await stage.gateways[0].kill();
  await isLost(page);
  const last = Math.max(...(await times(other)));
  await hasSince(other, 3, last);
  await hasSince(page, 3, last);
  await isLive(page);
  assert.equal(await page.evaluate("performance.timeOrigin"), loads, "the page was loaded again");
});

test("a stranger cannot say a measurement", async () => {
  const { urls, pages: [page, other] } = await open();
  const answer = await page.evaluate(
    ([url, wait]) =>
      new Promise((resolve, reject) => {
        const socket = new WebSocket(url);
        const say = (message) => socket.send(JSON.stringify(message));
        socket.onopen = () => {
          say({ type: "join", room: "cpu" });
          say({ type: "measurement", room: "cpu", payload: { at: 1, value: 7 }, id: 1 });
        };
        socket.onmessage = ({ data }) => JSON.parse(data).id === 1 && resolve(JSON.parse(data).error);
        setTimeout(() => reject(new Error("no answer")), wait);
      }),
    [`${urls[0].replace("http", "ws")}/ws`, WAIT_MS],
  );
  assert.equal(answer, "INVALID_PAYLOAD");
  const last = Math.max(...(await times(other)));
  await hasSince(other, 2, last);
  for (const seen of await Promise.all([page, other].map((one) => times(one)))) assert.ok(!seen.includes(1));
});
