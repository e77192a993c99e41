// What operators see of slow rooms, hear by a test client, and read of failures: in the page, by keyboard, on a phone, and not without the scopes.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { io } from "socket.io-client";
import { Cluster } from "./cluster.mjs";
import { ATTACK, PHONE, accessibilityProblems } from "./judge.mjs";
import { Operator } from "./operator.mjs";
import { launchBrowser } from "./person.mjs";
import { sluggard } from "./sluggard.mjs";

let browser;
let cluster;
let node;
const clients = [];

before(async () => {
  browser = await launchBrowser();
  cluster = await Cluster.start(1);
  [node] = cluster.watched;
  await cluster.worker();
});

after(async () => {
  for (const one of clients) one.disconnect();
  await browser?.close();
  await cluster?.stop();
});

function client() {
  const one = io(node.gateway.url, { transports: ["websocket"], forceNew: true });
  clients.push(one);
  return one;
}

async function fits(page) {
  const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
  assert.ok(width <= PHONE.viewport.width, `it is ${width} px wide`);
}

describe("slow rooms", () => {
  test("are those whose members have not taken what was said", async () => {
    const speaker = client();
    await speaker.emitWithAck("join", ATTACK);
    const slow = [
      await sluggard(node.gateway.url, ATTACK),
      await sluggard(node.gateway.url, "other"),
    ];
    for (let n = 0; n < 40; n += 1) speaker.emit("news", "x".repeat(1000));
    await speaker.emitWithAck("join", "last");
    const ops = await Operator.enter(browser, node);
    await ops.open("rooms");
    await ops.page.getByLabel("First", { exact: true }).selectOption("the slowest");
    await ops.page.click('form button[type="submit"]');
    await ops.sees(".found", /^1 room with members for whom something waits/);
    await ops.sees('[aria-label="Rooms"]:not([hidden]) tbody tr', /^<img.*1[34]\d\.?\d? KiB$/);
    assert.match(await ops.page.evaluate(() => location.hash), /order=slowest/);
    assert.deepEqual(await accessibilityProblems(ops.page), []);
    assert.equal(await ops.page.evaluate(() => window.attacked), undefined);
    ops.assertNoErrors();
    await ops.leave();
    for (const one of slow) await one.leave();
  });
});

describe("a test client", () => {
  test("hears what a room says, by keyboard alone, and leaves when it is told to", async () => {
    const ada = client();
    await ada.emitWithAck("join", "den");
    const ops = await Operator.enter(browser, node, "ops", { colorScheme: "dark" });
    const { page } = ops;
    await ops.open("try?room=den");
    await page.getByLabel("Reason, for the audit").fill("case 7");
    await page.keyboard.press("Enter");
    await ops.sees("#main .found", /^It listens as socket \S{20}\. It is in the room den\.$/);
    ada.emit("chat", ATTACK, { fish: 3 });
    await ops.sees('[aria-label="What it hears"] tbody tr', /chat.*<img src=x.*fish/);
    // Sent from the same page, it hears it, too.
    await page.click('button:text-is("Send")');
    await ops.sees('[aria-label="What it hears"] tbody tr', /news"hello"/);
    assert.equal(await page.evaluate(() => window.attacked), undefined);
    assert.deepEqual(await accessibilityProblems(page), []);
    await page.focus('button:text-is("Stop listening")');
    await page.keyboard.press("Enter");
    await ops.sees("#main .found", /^It has left\.$/);
    await page.waitForFunction(() => document.activeElement.textContent === "Listen");
    await ops.open("audit");
    await ops.sees("tbody tr", /ops.*listen.*room den, because: case 7/);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("ends with its page, and says why it is not let in", async () => {
    const ops = await Operator.enter(browser, node, "ops", PHONE);
    await ops.open("try?room=den&namespace=/nowhere");
    await ops.page.getByLabel("Reason, for the audit").fill("case 8");
    await ops.page.click('button:text-is("Listen")');
    await ops.sees("#main .found", /^It has left: it was not let into the namespace/);
    await ops.open("try?room=quiet");
    await ops.page.getByLabel("Reason, for the audit").fill("case 9");
    await ops.page.click('button:text-is("Listen")');
    await ops.sees("#main .found", /It is in the room quiet/);
    await fits(ops.page);
    assert.deepEqual(await accessibilityProblems(ops.page), []);
    await ops.open("rooms?room=quiet");
    await ops.sees("#main", /No session|no session|Nobody/);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("is not for a key that may only read, nor for users and sockets", async () => {
    const look = await Operator.enter(browser, node, "look");
    await look.open("try?room=den");
    assert.equal(await look.page.isDisabled('button:text-is("Listen")'), true);
    await look.sees("#main .found", /lacks the scope trace:payload and members/);
    // All of a namespace hear what needs no place in a room.
    await look.open("try");
    await look.sees("#main .found", /lacks the scope trace:payload\.$/);
    await look.leave();
    const ops = await Operator.enter(browser, node);
    await ops.open("try?user=ada");
    assert.equal(await ops.page.isDisabled('button:text-is("Listen")'), true);
    await ops.sees("#main .found", /in a room, or to all of a namespace/);
    await ops.leave();
  });
});

// Behind all others: from then on the node is not well.
test("what was said in a failure is shown for a reason, as text, and hidden again", async () => {
  const look = await Operator.enter(browser, node, "look");
  const ops = await Operator.enter(browser, node);
  await cluster.poison(ATTACK, "card 4111");
  const { page } = ops;
  await ops.open("backends");
  await ops.sees('[aria-label="Last failures"] tbody tr', /poison event.*event \(poison\), \d+ B/);
  assert.doesNotMatch(await page.textContent("#main"), /4111/);
  await page.getByLabel("Reason, for the audit").fill("case 7");
  await page.keyboard.press("Enter");
  await ops.sees(".spoken pre", /<img src=x.*card 4111/);
  assert.equal(await page.evaluate(() => window.attacked), undefined);
  assert.deepEqual(await accessibilityProblems(page), []);
  await page.setViewportSize(PHONE.viewport);
  await fits(page);
  await page.click('button:text-is("Hide")');
  assert.equal(await page.locator(".spoken").count(), 0);
  await ops.open("audit");
  await ops.sees("tbody tr", /ops.*failures.*backend kitchen with payload, because: case 7/);
  await look.open("backends");
  await look.sees('[aria-label="Last failures"] tbody tr', /needs the scope operate/);
  assert.equal(await look.page.getByLabel("Reason, for the audit").count(), 0);
  ops.assertNoErrors();
  await ops.leave();
  await look.leave();
});
