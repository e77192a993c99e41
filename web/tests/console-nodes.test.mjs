// The console with two nodes, a worker and two thousand clients: what all nodes have, which of them does not answer, and that every page holds
// what is there.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { io } from "socket.io-client";
import { Cluster } from "./cluster.mjs";
import { ATTACK, PHONE, accessibilityProblems } from "./judge.mjs";
import { Operator, PAGES } from "./operator.mjs";
import { launchBrowser } from "./person.mjs";

const CLIENTS = 2000;

let browser;
let cluster;
let first;
let second;
let crowd;

before(async () => {
  browser = await launchBrowser();
  cluster = await Cluster.start();
  [first, second] = cluster.watched;
  await cluster.worker();
  crowd = await cluster.crowd(CLIENTS);
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

async function client(watched, rooms = [], options = {}) {
  const socket = io(watched.gateway.url, {
    transports: ["websocket"],
    forceNew: true,
    reconnection: false,
    ...options,
  });
  if (!socket.connected)
    await new Promise((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("connect_error", reject);
    });
  for (const room of rooms) await socket.emitWithAck("join", room);
  return socket;
}

const places = () => [
  ...PAGES,
  "sessions?where=nodes",
  "rooms?where=nodes",
  "ends?where=nodes",
  "rooms?room=crowd",
];

describe("all nodes", () => {
  test("are looked at from one page: sessions, rooms and ends", async () => {
    const far = await client(second, ["far-room"]);
    const ops = await Operator.enter(browser, first);
    await ops.open("sessions?where=nodes");
    await ops.sees(".found", /2,00\d sessions on 2 nodes, 50 shown/);
    await ops.open("sessions?where=nodes&room=far-room");
    await ops.sees(".found", /^1 session on 2 nodes/);
    await ops.page.click("tbody a");
    await ops.sees("#main h1", new RegExp(far.id));
    await ops.sees("#main dt", /Round trip, as the kernel has it/);
    await ops.sees("#main dd", /^\d$/);
    await ops.open("rooms?where=nodes");
    await ops.sees("tbody tr", /crowd.*1,500$/);
    await ops.sees("tbody tr", /quarter.*500$/);
    const news = setInterval(() => far.emit("news", 1), 20);
    await ops.page.getByLabel("First", { exact: true }).selectOption("the busiest");
    await ops.page.waitForTimeout(2000);
    await ops.page.click('form button[type="submit"]');
    await ops.sees(".found", /with traffic lately, of a sample/);
    await ops.sees('[aria-label="Rooms"]:not([hidden]) tbody tr', /^far-room.*[1-9]/);
    clearInterval(news);
    far.io.engine.close();
    await ops.open("ends");
    await ops.page.getByRole("radio", { name: "On all nodes", exact: true }).check();
    await ops.sees(".found", /on 2 nodes/);
    await ops.sees("tbody tr", /transport close/);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("have one session page: a socket of another node opens, and is put out", async () => {
    const far = await client(second, ["here-and-there"]);
    const ops = await Operator.enter(browser, first);
    await ops.open(`session/${encodeURIComponent(far.id)}`);
    await ops.sees("h2", /^Socket \/$/);
    await ops.page.click('button:text-is("Disconnect…")');
    const gone = new Promise((resolve) => far.once("disconnect", resolve));
    await ops.page.click("#confirm-yes");
    assert.equal(await gone, "io server disconnect");
    await ops.sees(".notice.ok", /is put out/);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("are named when they do not answer, and the others are shown", async () => {
    const ops = await Operator.enter(browser, first);
    await ops.open("sessions");
    await second.gateway.freeze();
    await ops.page.getByRole("radio", { name: "On all nodes", exact: true }).check();
    await ops.sees(".found", /on 1 node.*Node \d+ is missing: it (did not answer|is silent)/);
    second.gateway.thaw();
    await ops.page.waitForFunction(async () => {
      document.querySelector('form button[type="submit"]').click();
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return /on 2 nodes/.test(document.querySelector(".found").textContent);
    });
    ops.assertNoErrors();
    await ops.leave();
  });

  test("are drawn with what is between them, and a table says the same", async () => {
    const ops = await Operator.enter(browser, first);
    await ops.open("nodes");
    await ops.sees(".picture .title", /^Node \d+ \(this one\)$/);
    await ops.sees(".picture .title", /^Redis$/);
    await ops.sees(".picture .title", /^kitchen$/);
    await ops.sees(".picture text", /^[\d.,]+ ms$/);
    await ops.sees(".picture text", /^[\d.,]+\/s$/);
    const links = '[aria-label="Links"] tbody tr';
    await ops.sees(links, /^Node \d+Redis(well|slow)[\d.,]+.*there and back/);
    await ops.sees(links, /^Node \d+Node \d+heard/);
    await ops.sees(links, /^Node \d+kitchen1 up/);
    await ops.sees('[aria-label="Nodes"] tbody tr', /of \d+ cores/);
    await ops.sees(".found", /messages in and .* deliveries each second/);
    second.gateway.freeze();
    await ops.sees(links, /^Node \d+Node \d+silent for/);
    await ops.sees(".found", /Node \d+ is missing/);
    second.gateway.thaw();
    await ops.page.waitForFunction(
      () => !/missing/.test(document.querySelector(".found").textContent),
    );
    ops.assertNoErrors();
    const look = await Operator.enter(browser, first, "look");
    await look.open("nodes");
    await look.sees(".picture .title", /^Redis$/);
    await look.leave();
    await ops.leave();
  });

  test("are not for a key of some namespaces: the pages say so, and show what is open to all", async () => {
    const meal = await Operator.come(browser, first);
    await meal.giveKey(cluster.keys.meal.key);
    await meal.page.waitForSelector("#main h1");
    await meal.open("nodes");
    await meal.sees("#main .notice", /does not allow/);
    await meal.open("backends");
    await meal.sees(".found", /Read at .*for keys with the scope read in all namespaces/);
    const before = await meal.page.textContent(".found");
    await meal.page.waitForFunction(
      (text) => document.querySelector(".found").textContent !== text,
      before,
    );
    meal.assertNoErrors();
    await meal.leave();
  });

  test("can be drained while links cannot be had", async () => {
    const ops = await Operator.enter(browser, first);
    const problem = {
      status: 503,
      contentType: "application/problem+json",
      body: JSON.stringify({ title: "The gateway has too much to do", detail: "it takes long" }),
    };
    await ops.page.route("**/v1/nodes/links", (route) => route.fulfill(problem));
    await ops.open("nodes");
    await ops.sees(".found", /^2 nodes.*Links are missing: it takes long/);
    await ops.sees('[aria-label="Nodes"] tbody button:enabled', /^Drain…$/);
    await ops.page.unroute("**/v1/nodes/links");
    await ops.sees('[aria-label="Links"] tbody tr', /^Node \d+Node \d+heard/);
    await ops.leave();
  });

  test("are not looked at with a key that may not read, nor with a wrong one", async () => {
    const ask = async (key) => {
      const headers = { Authorization: `Bearer ${key}` };
      return (await fetch(`${first.url}/v1/nodes/sessions`, { headers })).status;
    };
    assert.equal(await ask("sockeye_wrong"), 401);
    assert.equal(await ask(cluster.keys.look.key), 200);
    const eve = await Operator.come(browser, first);
    await eve.giveKey("sockeye_wrong");
    await eve.sees("#login-problem", /./);
    assert.equal(await eve.page.locator("#main h1").count(), 0);
    await eve.leave();
  });
});

describe("a worker", () => {
  test("is shown with what it has and how fast it is, and the socket says who has it", async () => {
    const meal = io(`${first.gateway.url}/meal`, { transports: ["websocket"], forceNew: true });
    await meal.emitWithAck("order", "soup");
    const ops = await Operator.enter(browser, first);
    await ops.open("backends");
    await ops.sees("#main h2", /^kitchen$/);
    await ops.sees('[aria-label="Workers"] tbody tr', /^[0-9a-f-]{36}attached/);
    await ops.open(`session/${encodeURIComponent(meal.id)}`);
    await ops.sees("#main dd", /^[0-9a-f-]{36} of kitchen$/);
    meal.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });
});

describe("every page, with two thousand clients", () => {
  for (const colorScheme of ["light", "dark"])
    test(`has no finding of axe in ${colorScheme} colours`, async () => {
      const ops = await Operator.enter(browser, first, "ops", { colorScheme });
      for (const place of places()) {
        await ops.open(place);
        assert.deepEqual(await accessibilityProblems(ops.page), [], place);
      }
      ops.assertNoErrors();
      await ops.leave();
    });

  test("fits 360 px", async () => {
    const ops = await Operator.enter(browser, first, "ops", PHONE);
    for (const place of places()) {
      await ops.open(place);
      // A browser that makes room for what is too wide has another `innerWidth` then.
      const width = await ops.page.evaluate(() => document.scrollingElement.scrollWidth);
      assert.ok(width <= PHONE.viewport.width, `${place} is ${width} px wide`);
    }
    ops.assertNoErrors();
    await ops.leave();
  });

  test("keeps names from outside as text: a program's name, rooms of another node", async () => {
    const extraHeaders = { "User-Agent": ATTACK };
    const mallory = await client(second, [ATTACK], { extraHeaders });
    const ops = await Operator.enter(browser, first);
    await ops.open(`session/${encodeURIComponent(mallory.id)}`);
    await ops.sees("#main dd", /^<img src=x/);
    await ops.open(`rooms?where=nodes&contains=${encodeURIComponent("<img")}`);
    await ops.sees("tbody th", /<img src=x/);
    assert.equal(await ops.page.evaluate(() => window.attacked), undefined);
    assert.equal(await ops.page.locator("#main img").count(), 0);
    mallory.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });

  test("is reached by keyboard alone: from the sessions of this node to those of all", async () => {
    const ops = await Operator.enter(browser, first);
    const { page } = ops;
    await ops.open("sessions");
    await page.getByRole("radio", { name: "On this node", exact: true }).focus();
    await page.keyboard.press("ArrowRight");
    await ops.sees(".found", /on 2 nodes/);
    await page.focus(".table-scroll:not([hidden]) tbody a");
    await page.keyboard.press("Enter");
    await ops.sees("#main h1", /^Session /);
    ops.assertNoErrors();
    await ops.leave();
  });
});

test("the crowd is still there: nobody was disconnected by being looked at", async () => {
  const ops = await Operator.enter(browser, first);
  await ops.open("sessions?where=nodes&room=crowd");
  await ops.sees(".found", /^1,500 sessions on 2 nodes/);
  assert.equal(crowd.exitCode, null);
  await ops.leave();
});

// Behind all others: from then on the node is not well.
test("a worker that ends over one event again and again leaves a poison event behind", async () => {
  const look = await Operator.enter(browser, first, "look");
  const ops = await Operator.enter(browser, first);
  await ops.open("backends");
  await cluster.poison();
  await ops.sees('[aria-label="Last failures"] tbody tr', /poison event/);
  await ops.sees('[aria-label="Last failures"] tbody tr', /poison of socket/);
  await look.open("backends");
  await look.sees('[aria-label="Last failures"] tbody tr', /needs the scope operate/);
  ops.assertNoErrors();
  await ops.leave();
  await look.leave();
});
