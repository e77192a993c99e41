// The examples in Chromium: on Socket.IO's own server, and on gateways and two workers that are killed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { freePort } from "../../conformance/ports.mjs";
import { WAIT_MS, atEnd, newVisitor, onSockeye, openPage } from "./browser.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** The same file, with `socket.io` for the import. */
async function onSocketIo(app) {
  const port = await freePort();
  const child = spawn(process.execPath, ["--import", here("./plain.mjs"), here(`../${app}`)], { env: { ...process.env, PORT: String(port) }, stdio: ["ignore", "pipe", "inherit"] });
  atEnd(() => child.kill("SIGKILL"));
  const listens = await Promise.race([once(child.stdout, "data").then(() => true), once(child, "exit").then(() => false)]);
  if (!listens) throw new Error(`${app} did not begin to listen`);
  const url = `http://localhost:${port}`;
  return { urls: [url, url] };
}

async function visit(url, path = "/") {
  const page = await openPage(await newVisitor(), url + path);
  // The page's script declares it: it is no member of `window`.
  await page.waitForFunction("socket.connected");
  await page.evaluate("window.lost = []; socket.on('disconnect', (reason) => lost.push(reason)); undefined");
  return page;
}

const texts = (page, list) => page.$$eval(`${list} li`, (items) => items.map((item) => item.textContent));
const reads = (page, list, text) =>
  page.waitForFunction(([where, wanted]) => [...document.querySelectorAll(`${where} li`)].some((item) => item.textContent === wanted), [list, text]);
const answers = (page, text, options) =>
  page.waitForFunction((wanted) => document.querySelector("#answer").textContent === wanted, text, options);

/** Asks until the list is this one: a list may be older than the join before it. */
async function finds(page, text) {
  for (const until = Date.now() + WAIT_MS; ; ) {
    await page.click("#who");
    const found = await answers(page, text, { timeout: 3000 }).then(() => true, () => false);
    if (found) return;
    assert.ok(Date.now() < until, `${await page.textContent("#answer")} is not ${text}`);
  }
}

async function say(page, text) {
  await page.fill("#input", text);
  await page.press("#input", "Enter");
}

async function talk([url, other], between = async () => {}) {
  const [ada, grace] = [await visit(url), await visit(other)];
  const said = [];
  for (let n = 1; n <= 20; n++) {
    const [from, text] = [n % 2 ? ada : grace, `message ${n}`];
    await say(from, text);
    said.push(text);
    if (n === 10) await between();
  }
  for (const page of [ada, grace]) {
    for (const text of said) await reads(page, "#messages", text);
    assert.deepEqual(await page.evaluate("lost"), []);
    // Each speaker's messages are in order. A worker that is killed may have sent one already.
    const heard = [...new Set(await texts(page, "#messages"))];
    for (const odd of [0, 1]) {
      const spoken = (text) => Number(text.split(" ")[1]) % 2 === odd;
      assert.deepEqual(heard.filter(spoken), said.filter(spoken));
    }
  }
}

async function dine([url, other], table, between = async () => {}) {
  const [ada, grace] = [await visit(url, "/?token=token-ada"), await visit(other, "/?token=token-grace")];
  await ada.click(`[data-table=${table}]`);
  await finds(ada, "At this table: Ada");
  await grace.click(`[data-table=${table}]`);
  await reads(ada, "#news", "Grace sits down");
  await finds(grace, "At this table: Ada, Grace");
  await between();
  await ada.click("[data-dish=soup]");
  await reads(grace, "#news", "Ada orders soup");
  await ada.waitForFunction(() => /^Ordered \(/.test(document.querySelector("#answer").textContent));
  await ada.click("[data-dish=steak]");
  await answers(ada, "no steak today");
  await finds(grace, "At this table: Ada, Grace");
  for (const page of [ada, grace]) assert.deepEqual(await page.evaluate("lost"), []);
  await grace.context().close();
  await reads(ada, "#news", "Grace leaves");
  const stranger = await openPage(await newVisitor(), `${url}/?token=wrong`);
  await stranger.waitForFunction(() => document.querySelector("#state").textContent === "Refused: no such token, ask at the door");
  await stranger.context().close();
}

const placeOf = (page, id) => page.$eval(`[data-id="${id}"]`, ({ dataset }) => [Number(dataset.x), Number(dataset.y)]);
const isAt = (page, id, [x, y]) =>
  page.waitForFunction(([who, column, row]) => document.querySelector(`[data-id="${who}"][data-x="${column}"][data-y="${row}"]`) !== null, [id, x, y]);

/** To the corner, and on to one place: steps of a socket are taken in order, whoever has it. */
async function walk(page, steps) {
  for (const key of ["ArrowUp", "ArrowLeft"]) for (let n = 0; n < 20; n++) await page.keyboard.press(key);
  for (let n = 0; n < steps; n++) await page.keyboard.press("ArrowRight");
}

async function play([url, other], between = async () => {}) {
  const [ada, grace] = [await visit(url), await visit(other)];
  const [own, hers] = await Promise.all([ada, grace].map((page) => page.evaluate("socket.id")));
  for (const page of [ada, grace]) for (const id of [own, hers]) await page.waitForSelector(`[data-id="${id}"]`);
  assert.deepEqual(await placeOf(ada, hers), await placeOf(grace, hers));
  await walk(ada, 7);
  for (const page of [ada, grace]) await isAt(page, own, [7, 0]);
  await between();
  await walk(grace, 3);
  await walk(ada, 12);
  for (const page of [ada, grace]) {
    await isAt(page, hers, [3, 0]);
    await isAt(page, own, [12, 0]);
  }
  // One wave may be lost, which is what volatile means.
  for (let seen = false; !seen; ) {
    await ada.keyboard.press(" ");
    seen = await grace.waitForSelector(`.waves[data-id="${own}"]`, { timeout: 1000 }).then(() => true, () => false);
  }
  for (const page of [ada, grace]) assert.deepEqual(await page.evaluate("lost"), []);
  await grace.context().close();
  await ada.waitForFunction((id) => document.querySelector(`[data-id="${id}"]`) === null, hers);
}

const sees = (page, wanted) => page.waitForFunction((names) => [...document.querySelectorAll("#people li")].map((item) => item.textContent).sort().join() === names, wanted.sort().join());

/** A cursor of this name is where the other's mouse is, to a pixel or so. */
const pointsAt = (page, name, [x, y]) =>
  page.waitForFunction(
    ([who, right, down]) => [...document.querySelectorAll(".cursor")].some((cursor) => cursor.textContent === who && Math.abs(cursor.dataset.x - right) < 0.01 && Math.abs(cursor.dataset.y - down) < 0.01),
    [name, x, y],
  );

async function point(page, [x, y]) {
  const { x: left, y: top, width, height } = await page.locator("#board").boundingBox();
  await page.mouse.move(left + x * width, top + y * height, { steps: 5 });
}

async function pointTogether([url, other], between) {
  const evil = "<img src=x onerror=alert(1)>";
  const [ada, grace] = [await visit(url, "/?name=Ada"), await visit(other, `/?name=${encodeURIComponent(evil)}`)];
  await sees(ada, ["Ada (you)", evil]);
  await sees(grace, ["Ada", `${evil} (you)`]);
  await point(ada, [0.25, 0.75]);
  await pointsAt(grace, "Ada", [0.25, 0.75]);
  await between();
  await point(grace, [0.5, 0.1]);
  await pointsAt(ada, evil, [0.5, 0.1]);
  // A newcomer sees where the others point, although their mice rest. Places that are none, and those of somebody else, move nothing.
  await grace.evaluate("for (const bad of [null, {}, { x: 'a', y: 0 }, { x: 7, y: 0 }, { id: 'me', x: NaN, y: 0 }]) socket.emit('cursor', bad)");
  const late = await visit(url, "/?name=Late");
  await pointsAt(late, "Ada", [0.25, 0.75]);
  await pointsAt(late, evil, [0.5, 0.1]);
  await sees(grace, ["Ada", "Late", `${evil} (you)`]);
  for (const page of [ada, grace, late]) assert.deepEqual(await page.evaluate("lost"), []);
  await grace.context().close();
  await sees(ada, ["Ada (you)", "Late"]);
  await sees(late, ["Ada", "Late (you)"]);
  // The mouse of the newcomer has not moved.
  assert.deepEqual(await Promise.all([ada, late].map((page) => page.locator(".cursor").count())), [0, 1]);
  const nobody = await openPage(await newVisitor(), `${url}/?name=${"x".repeat(41)}`);
  await nobody.waitForFunction(() => document.querySelector("#state").textContent === "Not connected: a name has 1 to 40 characters");
  for (const page of [ada, late, nobody]) await page.context().close();
}

/** What a page of the clock has counted. */
const counted = (page) => page.evaluate("({ ...counts, id: socket.id })");
const hears = (page, ticks) => page.waitForFunction((wanted) => counts.heard >= wanted, ticks);

async function whoAmI(page) {
  const { rooms, data } = await page.evaluate("socket.emitWithAck('who am i')");
  return { rooms: rooms.sort(), data };
}

/** Cuts the page's connection and waits until it is back and has heard more: by the button, and as a network does that is there no more. */
async function comeBack(page, lose) {
  const { recovered, fresh } = await counted(page);
  await lose();
  await page.waitForFunction((before) => counts.recovered + counts.fresh > before, recovered + fresh);
  const { heard } = await counted(page);
  await hears(page, heard + 3);
}

async function missNothing([url], between = async () => {}) {
  const page = await openPage(await newVisitor(), `${url}/?calm`);
  await page.waitForFunction("socket.connected");
  const { id } = await counted(page);
  await hears(page, 3);
  const before = await whoAmI(page);
  assert.deepEqual(before.rooms, [id, "visitors"].sort());
  for (let round = 1; round <= 3; round++) await comeBack(page, () => page.click("#cut"));
  await between();
  await comeBack(page, async () => {
    await page.evaluate("cut(), undefined");
    await page.context().setOffline(true);
    await page.waitForTimeout(2_000);
    await page.context().setOffline(false);
  });
  const { heard, ...rest } = await counted(page);
  assert.deepEqual(rest, { recovered: 4, fresh: 0, wrong: 0, id });
  assert.deepEqual(await whoAmI(page), before);
  await page.context().close();
}

/** Kills the worker at once; the other takes its sockets over. */
const killOne = (stage) => async () => stage.workers[0].kill();
const killOther = (stage) => async () => stage.workers[1].kill();

test("the chat on Socket.IO's server", async () => {
  await talk((await onSocketIo("chat/index.js")).urls);
});

test("the chat on the gateway, while one worker is killed, then the other", async () => {
  const { stage, urls } = await onSockeye("chat/index.js");
  await talk(urls, killOne(stage));
  await talk(urls, killOther(stage));
});

test("the tables on Socket.IO's server", async () => {
  await dine((await onSocketIo("tables/index.js")).urls, "window");
});

test("the tables on the gateway, while one worker is killed, then the other", async () => {
  const { stage, urls } = await onSockeye("tables/index.js");
  await dine(urls, "window", killOne(stage));
  await dine(urls, "door", killOther(stage));
});

test("the game on Socket.IO's server", async () => {
  await play((await onSocketIo("game/index.js")).urls);
});

test("the game on the gateway, while one worker is killed, then the other", async () => {
  const { stage, urls } = await onSockeye("game/index.js");
  await play(urls, killOne(stage));
  await play(urls, killOther(stage));
});

test("cursors and who points them, on two gateways, while one worker is killed, then the other", async () => {
  const { stage, urls } = await onSockeye("cursors/index.js");
  await pointTogether(urls, killOne(stage));
  await pointTogether(urls, killOther(stage));
});

test("the clock on Socket.IO's server", async () => {
  await missNothing((await onSocketIo("recovery/index.js")).urls);
});

test("the clock on the gateway, while one worker is killed, then the other", async () => {
  const { stage, urls } = await onSockeye("recovery/index.js");
  await missNothing(urls, killOne(stage));
  await missNothing(urls, killOther(stage));
});
