// A gateway as `sockeye init --chat` makes it: whoever comes with a token talks, and nobody else.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Gateway, executable } from "./gateway.mjs";
import { Person, launchBrowser } from "./person.mjs";

const folder = mkdtempSync(join(tmpdir(), "sockeye-token-"));
const sockeye = (...args) => execFileSync(executable(), args, { cwd: folder, encoding: "utf8" });

let browser;
let gateway;

before(async () => {
  browser = await launchBrowser();
  sockeye("init", "--chat");
  gateway = await Gateway.start("--config", join(folder, "sockeye.toml"));
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
});

const arrive = (name) =>
  Person.arrive(browser, gateway, name, {
    path: `/?token=${sockeye("token", "--uid", name).trim()}#/kitchen`,
  });

test("a token in the address lets its bearer in, and leaves the address", async () => {
  const ada = await arrive("Ada");
  const ben = await arrive("Ben");
  await ada.say("hello");
  assert.equal(await ben.sees("hello"), 1);
  const address = new URL(ada.page.url());
  assert.deepEqual([address.search, address.hash], ["", "#/kitchen"]);
  // The tab keeps it.
  await ada.page.reload();
  await ada.isOnline();
  await ben.say("again");
  assert.equal(await ada.sees("again"), 1);
  ada.assertNoErrors();
  ben.assertNoErrors();
  await ada.leave();
  await ben.leave();
});

test("without one the page says why", async () => {
  const eve = new Person();
  eve.context = await browser.newContext();
  eve.page = await eve.context.newPage();
  await eve.page.goto(gateway.url);
  await eve.giveName("Eve");
  await eve.seesText("body", /Authentication required/);
  await eve.leave();
});
