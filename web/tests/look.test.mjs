// Every screen and every reader: phones, themes, keyboard, screen readers.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Gateway } from "./gateway.mjs";
import { accessibilityProblems } from "./judge.mjs";
import { Person, launchBrowser } from "./person.mjs";

const PHONE = {
  viewport: { width: 390, height: 844 },
  isMobile: true,
  hasTouch: true,
  deviceScaleFactor: 2,
};

let browser;
let gateway;

before(async () => {
  browser = await launchBrowser();
  gateway = await Gateway.start();
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
});

/** Everyone's colour comes from their name: shows a received message in each of them. */
async function showAllHues(page) {
  await page.evaluate(() => {
    const row = document.querySelector(".message.first:not(.own)");
    for (let hue = 0; hue < 12; hue += 1) {
      const copy = row.cloneNode(true);
      copy.querySelector(".avatar").className = `avatar hue-${hue}`;
      copy.querySelector(".avatar").removeAttribute("aria-hidden");
      copy.querySelector(".author").className = `author hue-${hue}`;
      row.after(copy);
    }
  });
}

/** Messages whose time or state covers a part of their text. */
async function covered(page) {
  return await page.$$eval(".bubble", (bubbles) =>
    bubbles
      .filter((bubble) => {
        const text = document.createRange();
        text.selectNodeContents(bubble.querySelector(".content"));
        const meta = bubble.querySelector(".meta").getBoundingClientRect();
        const outside = (box) =>
          box.right <= meta.left ||
          box.left >= meta.right ||
          // The lines above; their boxes are as high as the font, not as its letters.
          box.bottom <= meta.top + 2;
        return ![...text.getClientRects()].every(outside);
      })
      .map((bubble) => `${bubble.textContent} (${bubble.clientWidth} px)`),
  );
}

describe("on a phone", () => {
  for (const width of [390, 320]) {
    test(`of ${width} px nothing scrolls sideways, whatever is written`, async () => {
      const ada = await Person.arrive(browser, gateway, "A".repeat(32), {
        ...PHONE,
        viewport: { width, height: 640 },
      });
      const grace = await Person.arrive(browser, gateway, "W".repeat(32));
      await grace.say("unbroken".repeat(120));
      await ada.sees("unbroken".repeat(120));
      await ada.say(`https://example.org/${"path/".repeat(60)}`);
      await ada.page.waitForSelector(".own a");
      await ada.page.click("#open-rooms");
      await ada.joinRoom(`room-${"x".repeat(43)}`);
      const overflow = await ada.page.evaluate(() => {
        const wide = [...document.querySelectorAll("main *")].filter(
          (node) => node.getBoundingClientRect().right > innerWidth + 1,
        );
        return {
          page: document.scrollingElement.scrollWidth - innerWidth,
          wide: wide.map((node) => node.id || node.className),
        };
      });
      assert.ok(overflow.page <= 0, `page is ${overflow.page} px too wide`);
      assert.deepEqual(overflow.wide, []);
      await ada.page.evaluate(() => (document.querySelector("#scroller").scrollLeft = 50));
      assert.equal(
        await ada.page.evaluate(() => document.querySelector("#scroller").scrollLeft),
        0,
      );
      await ada.leave();
      await grace.leave();
    });
  }

  test("the rooms are a drawer that keyboard and screen reader cannot enter while it is shut", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada", PHONE);
    assert.equal(await ada.page.evaluate(() => document.querySelector("#side").inert), true);
    await ada.page.click("#open-rooms");
    await ada.page.waitForFunction(() => document.activeElement.id === "close-rooms");
    assert.equal(await ada.page.getAttribute("#open-rooms", "aria-expanded"), "true");
    await ada.page.keyboard.press("Escape");
    await ada.page.waitForFunction(
      () => document.activeElement.id === "open-rooms" && document.querySelector("#side").inert,
    );
    ada.assertNoErrors();
    await ada.leave();
  });
});

describe("the time of a message", () => {
  for (const locale of ["en-US", "ko-KR", "en-GB"])
    for (const [screen, options] of [
      ["desktop", {}],
      ["phone", PHONE],
    ])
      test(`covers none of its text, in ${locale} on a ${screen}`, async () => {
        const path = `/#/time-${locale}-${screen}`.toLowerCase();
        const ada = await Person.arrive(browser, gateway, "Ada", { locale, path, ...options });
        const grace = await Person.arrive(browser, gateway, "Grace", { path });
        // Ends everywhere on a line, and on the second and third one too.
        const words = "all lines end somewhere, and none of them may end below the time ".repeat(3);
        const texts = ["ok", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd"];
        for (let length = 9; length < words.length; length += 11)
          texts.push(words.slice(0, length));
        for (const text of texts) {
          await ada.say(`${text}.`);
          await grace.say(`${text}!`);
        }
        await ada.sees(`${texts.at(-1)}!`);
        await ada.seesState(`${texts.at(-1)}.`, "sent");
        assert.deepEqual(await covered(ada.page), []);
        const times = await ada.page.$$eval("time", (nodes) => nodes.map((n) => n.textContent));
        const twelveHours = locale !== "en-GB";
        assert.ok(
          times.every((time) => time.length > 6 === twelveHours),
          times[0],
        );
        if (process.env.SHOTS)
          await ada.page.screenshot({ path: `${process.env.SHOTS}/${locale}-${screen}.png` });
        await ada.leave();
        await grace.leave();
      });
});

test("a long name of one's own stays beside the button for the theme", async () => {
  const reader = await Person.arrive(browser, gateway, "Wilhelmina Featherstonehaugh-Cox");
  const edge = (selector, side) =>
    reader.page.$eval(selector, (node, side) => node.getBoundingClientRect()[side], side);
  assert.ok((await edge("#rename", "right")) <= (await edge("#theme", "left")));
  await reader.leave();
});

describe("the log", () => {
  test("follows at its end, and does not jump while the reader is higher up", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada", { path: "/#/scroll" });
    const grace = await Person.arrive(browser, gateway, "Grace", { path: "/#/scroll" });
    for (let n = 0; n < 40; n += 1) await grace.say(`line ${n}`);
    await ada.sees("line 39");
    const position = () =>
      ada.page.$eval("#scroller", (log) => log.scrollHeight - log.clientHeight - log.scrollTop);
    assert.ok((await position()) < 5, "at the end");
    await ada.page.$eval("#scroller", (log) => log.scrollTo(0, 0));
    await ada.page.waitForTimeout(100);
    await grace.say("news below");
    await ada.seesText("#newer", /1 new message/);
    assert.equal(await ada.page.$eval("#scroller", (log) => log.scrollTop), 0);
    await ada.page.click("#newer");
    await ada.page.waitForFunction(() => document.querySelector("#newer").hidden);
    assert.ok((await position()) < 5, "at the end again");
    await ada.leave();
    await grace.leave();
  });
});

describe("themes", () => {
  test("follow the system until the reader chooses, and the choice stays", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada", { colorScheme: "dark" });
    const theme = () => ada.page.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), "dark");
    await ada.page.emulateMedia({ colorScheme: "light" });
    await ada.page.waitForFunction(() => document.documentElement.dataset.theme === "light");
    await ada.page.click("#theme");
    assert.equal(await theme(), "dark");
    await ada.page.reload();
    assert.equal(await theme(), "dark");
    assert.equal(await ada.page.getAttribute("#theme", "aria-label"), "Use the light theme");
    await ada.leave();
  });
});

describe("accessibility", () => {
  for (const colorScheme of ["light", "dark"]) {
    test(`rules hold in the ${colorScheme} theme`, async () => {
      // Tall, because what is scrolled out of sight is not judged.
      const viewport = { width: 1100, height: 1800 };
      const person = await Person.arrive(browser, gateway, "Ada", {
        colorScheme,
        viewport,
        path: `/#/${colorScheme}`,
      });
      const grace = await Person.arrive(browser, gateway, "Grace", { path: `/#/${colorScheme}` });
      await grace.say("hello");
      await person.sees("hello");
      await person.say("hello yourself, see https://example.org");
      await person.seesState("hello yourself, see https://example.org", "sent");
      await showAllHues(person.page);
      assert.deepEqual(await accessibilityProblems(person.page), []);
      await person.page.click("#add-room");
      assert.deepEqual(await accessibilityProblems(person.page), []);
      await person.leave();
      await grace.leave();
    });
  }

  test("everything can be done with the keyboard", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.page.waitForFunction(() => document.activeElement.id === "draft");
    await ada.page.keyboard.type("typed");
    await ada.page.keyboard.press("Shift+Enter");
    await ada.page.keyboard.type("on two lines");
    await ada.page.keyboard.press("Enter");
    await ada.seesState("typed\non two lines", "sent");
    await ada.joinRoom("keys");
    await ada.page.waitForFunction(() => document.activeElement.id === "draft");
    await ada.page.keyboard.press("Alt+ArrowUp");
    await ada.seesText("#room-name", /^global$/);
    await ada.page.focus("#add-room");
    await ada.page.keyboard.press("Tab");
    await ada.page.keyboard.press("Tab");
    await ada.page.keyboard.press("Enter");
    await ada.seesText("#room-name", /^keys$/);
    await ada.leave();
  });
});

/** Blurred, a page behind it on which something moved was drawn anew sixty times a second: a whole processor without a GPU. */
test("what is behind an open dialog is not blurred", async () => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`${gateway.url}/`);
  await page.waitForSelector("dialog[open]");
  const filter = await page.$eval(
    "dialog[open]",
    (it) => getComputedStyle(it, "::backdrop").backdropFilter,
  );
  assert.equal(filter, "none");
  await page.context().close();
});
