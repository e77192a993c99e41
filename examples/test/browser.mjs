// A real Chromium for the tests of one file, and what they open: all of it ends after each test.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, afterEach, before } from "node:test";
import { chromium } from "playwright-core";
import { Stage } from "../stage.mjs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell";
export const WAIT_MS = 60_000;
const ends = [];
let browser;

before(async () => {
  assert.ok(existsSync(CHROMIUM), `cannot find ${CHROMIUM}: install it with \`apt-get install -y chromium-headless-shell\``);
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"] });
});
after(() => browser?.close());
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});
// The runner ends a file that takes too long by this signal. The stage's programs end when this process exits.
process.once("SIGTERM", () => process.exit(1));

/** Called after the test, the last one first. */
export const atEnd = (end) => ends.push(end);

/** The second visitor is at the last gateway. */
export async function onSockeye(app) {
  const stage = await Stage.open(app);
  atEnd(() => stage.close());
  return { stage, urls: [stage.urls[0], stage.urls.at(-1)] };
}

/** A visitor of its own, with cookies of its own. */
export async function newVisitor() {
  const context = await browser.newContext();
  atEnd(() => context.close());
  context.setDefaultTimeout(WAIT_MS);
  return context;
}

export async function openPage(context, url) {
  const page = await context.newPage();
  await page.goto(url);
  return page;
}
