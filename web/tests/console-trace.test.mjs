// The console's live trace: lines as they pass, pause, filter and export, by keyboard, on a phone, in both colours.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { ATTACK, PHONE, accessibilityProblems } from "./judge.mjs";
import { Operator, Watched } from "./operator.mjs";
import { launchBrowser } from "./person.mjs";

let browser;
let watched;

before(async () => {
  browser = await launchBrowser();
  watched = await Watched.start();
});

after(async () => {
  await browser?.close();
  await watched?.stop();
});

const press = (ops, name) => ops.page.click(`#main button:text-is("${name}")`);
const rows = (ops) => ops.page.locator("#main tbody tr").count();

/** Begins to follow, and waits until the node does. */
async function follow(ops, query) {
  await ops.open(`trace?${new URLSearchParams(query)}`);
  await press(ops, "Follow");
  await ops.sees("#main [role=status]", /^Following /);
}

/** Traces that run at the node. */
async function running(ops) {
  return await ops.page.evaluate(async () => {
    const answer = await fetch("/metrics", {
      headers: { "X-Sockeye-CSRF": localStorage.getItem("sockeye.console") },
    });
    return /^sockeye_traces_live (\d+)$/m.exec(await answer.text())?.[1];
  });
}

async function until(fits) {
  for (let n = 0; n < 300; n += 1) {
    if (await fits()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail("it did not come to that in 30 s");
}

describe("a live trace", () => {
  test("shows what passes a user, and names stay text", async () => {
    const mallory = await watched.client(ATTACK, []);
    const ops = await Operator.enter(browser, watched);
    await follow(ops, { user: ATTACK });
    await mallory.timeout(20_000).emitWithAck("join", ATTACK);
    await ops.sees("#main tbody td", /^join$/);
    await ops.sees("#main tbody td", /^answered after \d+ ms$/);
    await ops.sees(
      "#main tbody td",
      new RegExp(`^string\\(${JSON.stringify(ATTACK).length - 2}\\)$`),
    );
    mallory.emit(ATTACK, "secret words");
    await ops.sees("#main tbody td", /^<img src=x onerror/);
    assert.equal(await ops.page.evaluate(() => window.attacked), undefined);
    assert.equal(await ops.page.locator("#main img").count(), 0);
    assert.doesNotMatch(await ops.page.textContent("#main"), /secret words/);
    mallory.disconnect();
    await ops.sees("#main tbody td", /^ended: /);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("pauses, filters, and is exported as JSON lines and as HAR", async () => {
    const ada = await watched.client("ada", ["den"]);
    const ops = await Operator.enter(browser, watched);
    await follow(ops, { user: "ada" });
    const asks = (room) => ada.timeout(20_000).emitWithAck("join", room);
    await asks("one");
    await until(async () => (await rows(ops)) >= 2);
    await press(ops, "Pause");
    await ops.sees("#main .found", /^\d+ lines kept, paused\.$/);
    const before = await rows(ops);
    const kept = async () =>
      Number.parseInt(await ops.page.textContent("#main .found:not([role])"), 10);
    await asks("two-22");
    await until(async () => (await kept()) >= before + 2);
    assert.equal(await rows(ops), before);
    await press(ops, "Go on");
    await until(async () => (await rows(ops)) >= before + 2);
    await ops.page.fill('#main label:text-is("Only lines with") + input', "string(6)");
    await until(async () => (await rows(ops)) === 1);
    const [download] = await Promise.all([ops.page.waitForEvent("download"), press(ops, "Export")]);
    assert.equal(download.suggestedFilename(), "sockeye-trace.jsonl");
    const text = readFileSync(await download.path(), "utf8");
    const line = JSON.parse(text);
    assert.deepEqual([line.event, line.user, line.args], ["join", "ada", "string(6)"]);
    const [har] = await Promise.all([ops.page.waitForEvent("download"), press(ops, "Export HAR")]);
    const { log } = JSON.parse(readFileSync(await har.path(), "utf8"));
    assert.equal(log.entries.length, 1);
    const [said] = log.entries[0]._webSocketMessages;
    assert.deepEqual([said.type, JSON.parse(said.data).event], ["send", "join"]);
    await press(ops, "Stop");
    await ops.sees("#main [role=status]", /^Stopped\.$/);
    await until(async () => (await running(ops)) === "0");
    ops.assertNoErrors();
    ada.disconnect();
    await ops.leave();
  });

  test("ends with its page, with the login, and says what the node says", async () => {
    const ops = await Operator.enter(browser, watched);
    await follow(ops, { event: "n" });
    await until(async () => (await running(ops)) === "1");
    await ops.open("rooms");
    await until(async () => (await running(ops)) === "0");
    await ops.open("trace");
    await ops.page.selectOption("#main select", "session");
    await ops.page.fill('#main label:text-is("Its name") + input', "short");
    await press(ops, "Follow");
    await ops.sees("#main .notice", /is no id of a session or socket \(session\)/);
    await follow(ops, { event: "n" });
    const other = await ops.otherTab();
    await other.isInside();
    await other.page.click("#leave");
    await ops.page.waitForSelector("#login:not([hidden])");
    ops.errors = [];
    await ops.leave();
  });

  test("shows arguments for a reason, which the audit has", async () => {
    const ada = await watched.client("ada", []);
    const ops = await Operator.enter(browser, watched);
    await ops.open("trace?user=ada");
    await ops.page.check("#main .check input");
    await ops.page.fill('#main label:text-is("Reason, for the audit") + input', "case 7");
    await press(ops, "Follow");
    await ops.sees("#main [role=status]", /^Following user ada with payload/);
    await ada.timeout(20_000).emitWithAck("join", "reef");
    await ops.sees("#main tbody td", /^"reef"$/);
    await ops.open("audit");
    await ops.sees("#main tbody td", /^user ada with payload, because: case 7$/);
    ops.assertNoErrors();
    ada.disconnect();
    await ops.leave();
  });

  test("is not for a key without its scope", async () => {
    const look = await Operator.enter(browser, watched, "look");
    await look.open("trace?user=ada");
    await look.sees("#main [role=status]", /lacks the scope trace/);
    assert.equal(await look.page.isDisabled('#main button:text-is("Follow")'), true);
    assert.equal(await look.page.isDisabled("#main .check input"), true);
    await look.leave();
  });

  for (const colorScheme of ["light", "dark"])
    test(`has no finding of axe while it runs, in ${colorScheme} colours, and goes by keyboard`, async () => {
      const ada = await watched.client("ada", []);
      const ops = await Operator.enter(browser, watched, "ops", { colorScheme });
      await ops.open("trace?user=ada");
      await ops.page.focus('#main label:text-is("Its name") + input');
      await ops.page.keyboard.press("Enter");
      await ops.sees("#main [role=status]", /^Following /);
      assert.equal(await ops.page.evaluate(() => document.activeElement.textContent), "Stop");
      await ada.timeout(20_000).emitWithAck("join", "reef");
      await ops.sees("#main tbody td", /^join$/);
      assert.deepEqual(await accessibilityProblems(ops.page), []);
      await ops.page.focus('#main button:text-is("Stop")');
      await ops.page.keyboard.press("Enter");
      await ops.sees("#main [role=status]", /^Stopped\.$/);
      assert.equal(await ops.page.evaluate(() => document.activeElement.textContent), "Follow");
      ada.disconnect();
      ops.assertNoErrors();
      await ops.leave();
    });

  test("fits 360 px, with long names in it", async () => {
    const name = "x".repeat(100);
    const ada = await watched.client(name, []);
    const ops = await Operator.enter(browser, watched, "ops", PHONE);
    await follow(ops, { user: name });
    await ada.timeout(20_000).emitWithAck("join", name);
    await until(async () => (await rows(ops)) >= 2);
    const wide = () => ops.page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
    assert.ok((await wide()) <= 0);
    ada.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });
});
