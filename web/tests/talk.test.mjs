// People talk: two tabs, message states, rooms, presence, transports.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Gateway } from "./gateway.mjs";
import { Person, launchBrowser } from "./person.mjs";

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

describe("two tabs of one browser", () => {
  /** The second had the name and the rooms of the first: Ada talked to Ada. */
  test("are two people, who talk to each other", async () => {
    const first = await Person.arrive(browser, gateway, "Ada");
    await first.joinRoom("kitchen");
    await first.openRoom("global");
    const second = await Person.arrive(browser, gateway, "Bob", {
      context: first.context,
      // The name of the first tab is not offered.
      asked: (page) =>
        page.waitForFunction(() => document.querySelector("#name-input").value === ""),
    });
    assert.deepEqual(await second.rooms(), ["global"]);
    await first.say("hello from the first tab");
    assert.equal(await second.sees("hello from the first tab"), 1);
    await second.say("hello from the second tab");
    assert.equal(await first.sees("hello from the second tab"), 1);
    assert.equal(
      (await first.messages()).find((message) => message.text === "hello from the second tab").own,
      false,
    );
    assert.equal(await first.page.textContent(".message:last-child .author"), "Bob");
    await first.page.reload();
    await first.isOnline();
    assert.equal(await first.page.textContent("#my-name"), "Ada");
    assert.deepEqual(await first.rooms(), ["global", "kitchen"]);
    first.assertNoErrors();
    second.assertNoErrors();
    await first.leave();
  });

  test("who comes back alone is offered the name and finds the rooms of the last time", async () => {
    const first = await Person.arrive(browser, gateway, "Ada");
    await first.joinRoom("kitchen");
    await first.page.waitForFunction(() => localStorage["sockeye.last"]?.includes("kitchen"));
    await first.page.close();
    const again = await Person.arrive(browser, gateway, "Ada", { context: first.context });
    assert.deepEqual(await again.rooms(), ["global", "kitchen"]);
    again.assertNoErrors();
    await again.leave();
  });
});

describe("who is writing", () => {
  test("is shown to the others of the room until the message is there", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    const grace = await Person.arrive(browser, gateway, "Grace");
    const elsewhere = await Person.arrive(browser, gateway, "Eve");
    await elsewhere.joinRoom("attic");
    await ada.page.fill("#draft", "wait");
    await grace.seesText("#typing", /^Ada is typing…$/);
    assert.equal(await ada.page.textContent("#typing"), "");
    assert.equal(await elsewhere.page.textContent("#typing"), "");
    await ada.page.press("#draft", "Enter");
    await grace.sees("wait");
    await grace.seesText("#typing", /^$/);
    for (const person of [ada, grace, elsewhere]) {
      person.assertNoErrors();
      await person.leave();
    }
  });
});

describe("a message", () => {
  test("is shown once to its sender, acked, under the id that others see", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    const grace = await Person.arrive(browser, gateway, "Grace");
    await ada.say("one copy only");
    await ada.seesState("one copy only", "sent");
    assert.equal(await ada.sees("one copy only"), 1);
    await grace.sees("one copy only");
    const sent = (await ada.messages()).find((message) => message.text === "one copy only");
    const seen = (await grace.messages()).find((message) => message.text === "one copy only");
    assert.ok(sent.own && !seen.own);
    assert.match(sent.id, /./);
    assert.equal(sent.id, seen.id);
    assert.equal(await grace.page.textContent(".message:last-child .author"), "Ada");
    await ada.leave();
    await grace.leave();
  });

  test("stays in the state 'sending' until the server answers", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.isUpgraded();
    await gateway.freeze();
    try {
      await ada.say("slow server");
      await ada.seesState("slow server", "sending");
      await ada.page.waitForTimeout(300);
      assert.equal((await ada.messages()).at(-1).state, "sending");
    } finally {
      gateway.thaw();
    }
    await ada.seesState("slow server", "sent");
    await ada.leave();
  });

  test("keeps its order among quickly written ones", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    const grace = await Person.arrive(browser, gateway, "Grace");
    const texts = Array.from({ length: 20 }, (_, n) => `quick ${n}`);
    for (const text of texts) await ada.say(text);
    await ada.seesState("quick 19", "sent");
    await grace.sees("quick 19");
    for (const person of [ada, grace]) {
      const quick = (await person.messages())
        .map((message) => message.text)
        .filter((text) => text.startsWith("quick"));
      assert.deepEqual(quick, texts);
    }
    await ada.leave();
    await grace.leave();
  });
});

describe("rooms", () => {
  test("are separate", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    const grace = await Person.arrive(browser, gateway, "Grace");
    await ada.joinRoom("rust");
    await ada.say("only for rust");
    await ada.seesState("only for rust", "sent");
    await ada.openRoom("global");
    await ada.say("for everyone");
    await grace.sees("for everyone");
    assert.equal(
      (await grace.messages()).some((message) => message.text === "only for rust"),
      false,
    );
    assert.deepEqual(await grace.rooms(), ["global"]);
    await grace.joinRoom("rust");
    await grace.say("me too");
    await ada.openRoom("rust");
    await ada.sees("me too");
    assert.equal(
      (await ada.messages()).some((message) => message.text === "for everyone"),
      false,
    );
    await ada.leave();
    await grace.leave();
  });

  test("count unread messages until they are opened", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    const grace = await Person.arrive(browser, gateway, "Grace");
    await grace.joinRoom("quiet");
    for (const n of [1, 2, 3]) await ada.say(`unread ${n}`);
    await grace.seesText('#rooms [data-room="global"] .badge', /^3$/);
    assert.equal(await grace.page.title(), "(3) Sockeye chat");
    await grace.openRoom("global");
    await grace.sees("unread 3");
    assert.equal(await grace.page.locator(".unread").count(), 1);
    assert.equal(await grace.page.locator("#rooms .badge").count(), 0);
    assert.equal(await grace.page.title(), "Sockeye chat");
    await ada.leave();
    await grace.leave();
  });

  test("that were left are silent", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    const grace = await Person.arrive(browser, gateway, "Grace");
    await ada.joinRoom("busy");
    await grace.joinRoom("busy");
    await ada.say("grace is here");
    await grace.sees("grace is here");
    await grace.page.click("#leave");
    await ada.seesPresence(1);
    await ada.say("grace is gone");
    await ada.seesState("grace is gone", "sent");
    await ada.openRoom("global");
    await ada.say("after the room");
    await grace.sees("after the room");
    assert.deepEqual(await grace.rooms(), ["global"]);
    assert.equal(await grace.page.locator("#rooms .badge").count(), 0);
    await ada.leave();
    await grace.leave();
  });

  test("can be entered by a link", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada", { path: "/#/salmon%20run" });
    assert.deepEqual(await ada.rooms(), ["global", "salmon run"]);
    assert.equal(await ada.page.textContent("#room-name"), "salmon run");
    await ada.seesPresence(1);
    await ada.leave();
  });

  test("tell everyone what was said before they came", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada", { path: "/#/archive" });
    await ada.say("written before you came");
    await ada.seesState("written before you came", "sent");
    const grace = await Person.arrive(browser, gateway, "Grace", { path: "/#/archive" });
    assert.equal(await grace.sees("written before you came"), 1);
    assert.equal(await grace.page.locator("#rooms .badge").count(), 0);
    await ada.leave();
    await grace.leave();
  });
});

describe("presence", () => {
  test("counts the members of each room as they come and go", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.seesPresence(1);
    const grace = await Person.arrive(browser, gateway, "Grace");
    await ada.seesPresence(2);
    await grace.seesPresence(2);
    await grace.joinRoom("nook");
    await grace.seesPresence(1);
    await grace.leave();
    await ada.seesPresence(1);
    await ada.leave();
  });
});

describe("transports", () => {
  for (const transport of ["polling", "websocket"]) {
    test(`${transport} alone works`, async () => {
      const ada = await Person.arrive(browser, gateway, "Ada", {
        path: `/?transport=${transport}`,
      });
      const grace = await Person.arrive(browser, gateway, "Grace");
      await ada.say(`sent by ${transport}`);
      await ada.seesState(`sent by ${transport}`, "sent");
      await grace.sees(`sent by ${transport}`);
      await grace.say(`read by ${transport}`);
      await ada.sees(`read by ${transport}`);
      assert.equal(await ada.page.textContent("#link-state"), `Connected · ${transport}`);
      ada.assertNoErrors();
      await ada.leave();
      await grace.leave();
    });
  }

  test("polling is upgraded to websocket by itself", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.isUpgraded();
    await ada.leave();
  });
});
