// The server goes away and comes back: offline queue, unconfirmed messages, notices, what a reload
// keeps.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { io } from "socket.io-client";
import { Gateway } from "./gateway.mjs";
import { Person, launchBrowser } from "./person.mjs";

const HEARS_MS = 10_000;
let browser;
let gateway;

before(async () => {
  browser = await launchBrowser();
});

after(async () => {
  await browser?.close();
});

beforeEach(async () => {
  gateway = await Gateway.start();
});

afterEach(async () => {
  await gateway.stop();
});

/** A member of `global` outside the browser; collects contents in the order of arrival. */
async function observer(t) {
  const socket = io(gateway.url, { auth: { name: "Observer" }, transports: ["websocket"] });
  // Also after a failure: a socket that stays open keeps this program running.
  t.after(() => socket.disconnect());
  const contents = [];
  socket.on("chat-message", (message) => contents.push(message.content));
  await new Promise((resolve, reject) =>
    socket.once("connect", resolve).once("connect_error", reject),
  );
  /** Until it has so many: what another client knows to be sent may still be on its way here. */
  const hears = async (count) => {
    for (const until = Date.now() + HEARS_MS; contents.length < count && Date.now() < until; )
      await sleep(20);
    return contents;
  };
  return { contents, hears };
}

describe("offline queue", () => {
  test("keeps the last 50 of 55 messages, says so, and sends them in order after the restart", async (t) => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.isUpgraded();
    await gateway.kill();
    await ada.isOffline();
    // Cut off as well, so that the observer is back before her.
    await ada.context.setOffline(true);
    for (let n = 1; n <= 55; n += 1) await ada.say(`queued ${n}`);
    await ada.seesText(
      "#queue-notice",
      /50 messages are waiting to be sent\..*5 older messages were taken out/,
    );
    const before = await ada.messages();
    assert.deepEqual(
      before.map((message) => message.state),
      [...Array(5).fill("failed"), ...Array(50).fill("queued")],
    );
    assert.match(before[0].problem, /queue holds 50/);

    await gateway.restart();
    const watching = await observer(t);
    await ada.context.setOffline(false);
    await ada.isOnline();
    await ada.seesState("queued 55", "sent");
    const expected = Array.from({ length: 50 }, (_, index) => `queued ${index + 6}`);
    assert.deepEqual(await watching.hears(expected.length), expected);
    const states = (await ada.messages())
      .filter((message) => expected.includes(message.text))
      .map((message) => message.state);
    assert.deepEqual(states, Array(50).fill("sent"));
    assert.equal(await ada.page.isVisible("#queue-notice"), false);
    ada.assertNoErrors();
    await ada.leave();
  });

  test("survives a reload of the page", async (t) => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.isUpgraded();
    await gateway.kill();
    await ada.isOffline();
    await ada.say("written offline");
    await ada.seesState("written offline", "queued");
    await gateway.restart();
    const watching = await observer(t);
    await ada.page.reload();
    await ada.seesState("written offline", "sent");
    assert.deepEqual(await watching.hears(1), ["written offline"]);
    await ada.leave();
  });

  test("sends to rooms after joining them again", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada", { path: "/#/den" });
    const grace = await Person.arrive(browser, gateway, "Grace", { path: "/#/den" });
    await ada.seesPresence(2);
    await ada.isUpgraded();
    await gateway.kill();
    await ada.isOffline();
    await ada.say("still in the den");
    await gateway.restart();
    await grace.isOnline();
    await grace.seesPresence(2);
    await ada.seesState("still in the den", "sent");
    assert.equal(await grace.sees("still in the den"), 1);
    await ada.leave();
    await grace.leave();
  });
});

describe("a message without an answer", () => {
  test("fails when the connection is lost, and can be sent again", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.isUpgraded();
    await gateway.freeze();
    await ada.say("lost on the way");
    await ada.seesState("lost on the way", "sending");
    await gateway.kill();
    await ada.seesState("lost on the way", "failed");
    await gateway.restart();
    await ada.isOnline();
    assert.equal(
      (await ada.messages()).at(-1).state,
      "failed",
      "it must not be sent again unasked",
    );
    await ada.page.click(".problem >> text=Retry");
    await ada.seesState("lost on the way", "sent");
    assert.equal(await ada.sees("lost on the way"), 1);
    await ada.leave();
  });

  test("fails after ten seconds, and is confirmed after all when the answer comes late", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.isUpgraded();
    await gateway.freeze();
    await ada.say("patience");
    await ada.seesState("patience", "failed");
    assert.match((await ada.messages()).at(-1).problem, /did not answer/);
    gateway.thaw();
    await ada.seesState("patience", "sent");
    assert.equal(await ada.sees("patience"), 1);
    await ada.leave();
  });

  test("can be deleted", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.isUpgraded();
    await gateway.freeze();
    await ada.say("never mind");
    await gateway.kill();
    await ada.seesState("never mind", "failed");
    await ada.page.click(".problem >> text=Delete");
    await ada.page.waitForSelector("#empty", { state: "visible" });
    await gateway.restart();
    await ada.leave();
  });
});

describe("notices", () => {
  test("tell of the loss with a countdown, and a click ends the wait", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.isUpgraded();
    await gateway.kill();
    await ada.seesText("#notice-text", /Connection lost|cannot be reached/);
    await ada.seesText("#countdown", /Trying again in \d+ s/);
    await gateway.restart();
    // It may have come back by itself; then there is nothing to click.
    await ada.page.click("#retry-now", { timeout: 2000 }).catch(() => {});
    await ada.isOnline();
    assert.equal(await ada.page.isVisible("#notice"), false);
    await ada.leave();
  });

  test("tell that the server shuts down; it exits with 0 and everyone returns", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    const stopped = gateway.stop();
    await ada.seesText("#toasts", /shutting down/);
    await ada.seesText("#notice-text", /shutting down/);
    assert.equal(await stopped, 0);
    await gateway.restart();
    await ada.isOnline();
    await ada.say("we are back");
    await ada.seesState("we are back", "sent");
    await ada.leave();
  });
});

describe("a reload", () => {
  test("shows each known message once, own ones as own, although the server forgot them", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    const grace = await Person.arrive(browser, gateway, "Grace");
    await ada.say("from Ada");
    await grace.sees("from Ada");
    await grace.say("from Grace");
    await ada.sees("from Grace");
    const known = await ada.messages();
    await ada.page.reload();
    await ada.isOnline();
    await ada.sees("from Grace");
    assert.deepEqual(await ada.messages(), known);
    await gateway.stop();
    await gateway.restart();
    await ada.page.reload();
    await ada.isOnline();
    assert.deepEqual(await ada.messages(), known);
    ada.assertNoErrors();
    await ada.leave();
    await grace.leave();
  });
});

/** The page said "Connecting…" for ever. */
describe("a script that does not come", () => {
  for (const script of ["/socket.io/socket.io.min.js", "/app.js"]) {
    test(`is named with the reason: ${script}`, async () => {
      const context = await browser.newContext({ locale: "en-GB" });
      const page = await context.newPage();
      await page.route(`**${script}`, (route) =>
        route.fulfill({ status: 429, headers: { "retry-after": "880" }, body: "{}" }),
      );
      await page.goto(gateway.url);
      const text = `Cannot load ${script}: the server answers 429 and asks to come back in 880 s.`;
      await page.getByText(text).waitFor();
      assert.equal(await page.textContent("#link-state"), "Offline");
      assert.equal(await page.isVisible("#name-dialog"), false);
      await page.unroute(`**${script}`);
      await page.getByRole("button", { name: "Reload" }).click();
      await page.fill("#name-input", "Ada");
      await page.press("#name-input", "Enter");
      await page.waitForSelector('#link-state[data-phase="online"]', { state: "attached" });
      await context.close();
    });
  }
});
