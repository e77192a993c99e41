// Messages are text and nothing else; longer ones are refused on both sides.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { io } from "socket.io-client";
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

const ATTACK = `<img src=x onerror="window.attacked=1"><script>window.attacked=2</script>`;

describe("markup", () => {
  test("in content, names and room names stays text", async () => {
    const mallory = await Person.arrive(browser, gateway, ATTACK.slice(0, 32));
    const grace = await Person.arrive(browser, gateway, "Grace", {
      path: `/#/${encodeURIComponent(ATTACK)}`,
    });
    await grace.openRoom("global");
    await mallory.say(ATTACK);
    assert.equal(await grace.sees(ATTACK), 1);
    await mallory.seesState(ATTACK, "sent");
    assert.equal(await grace.page.textContent(".message:last-child .author"), ATTACK.slice(0, 32));
    assert.deepEqual(await grace.rooms(), ["global", ATTACK.slice(0, 48).trim()]);
    for (const { page } of [mallory, grace]) {
      await page.waitForTimeout(100);
      assert.equal(await page.evaluate(() => window.attacked), undefined);
      assert.equal(await page.locator("img, main script").count(), 0);
    }
    grace.assertNoErrors();
    await mallory.leave();
    await grace.leave();
  });

  test("becomes a link only for web addresses", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.say(
      "javascript:alert(1) data:text/html,x https://example.org/a?b=1&c=2. (http://example.net/x)",
    );
    await ada.page.waitForSelector(".message a");
    const links = await ada.page.$$eval(".message:last-child a", (nodes) =>
      nodes.map((node) => [node.textContent, node.href, node.rel]),
    );
    assert.deepEqual(links, [
      ["https://example.org/a?b=1&c=2", "https://example.org/a?b=1&c=2", "noopener noreferrer"],
      ["http://example.net/x", "http://example.net/x", "noopener noreferrer"],
    ]);
    await ada.leave();
  });
});

describe("the page", () => {
  test("is served with a policy that forbids foreign and inline code, and obeys it", async () => {
    const response = await fetch(`${gateway.url}/`);
    const policy = response.headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'self'/);
    assert.match(policy, /connect-src 'self' ws: wss:/);
    assert.doesNotMatch(policy, /unsafe/);
    const html = await response.text();
    assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/i);
    const ada = await Person.arrive(browser, gateway, "Ada");
    await ada.say("styled");
    await ada.seesState("styled", "sent");
    ada.assertNoErrors();
    await ada.leave();
  });
});

describe("length", () => {
  test("of 1,000 characters is sent and of 1,001 refused with a reason", async () => {
    const ada = await Person.arrive(browser, gateway, "Ada");
    // A fish counts as two, as in JavaScript and at the gateway.
    const longest = `${"é".repeat(998)}🐟`;
    await ada.say(longest);
    await ada.seesState(longest, "sent");
    await ada.say("x".repeat(1001));
    await ada.seesText("#draft-hint", /1,001 characters are too many/);
    assert.equal(await ada.page.textContent("#draft-left"), "-1");
    assert.equal(
      (await ada.page.inputValue("#draft")).length,
      1001,
      "what was written must not be lost",
    );
    assert.equal(
      (await ada.messages()).some((message) => message.text.startsWith("xxx")),
      false,
    );
    await ada.leave();
  });

  test("is checked by the server too, which answers event and ack", async () => {
    const socket = io(gateway.url, { auth: { name: "Raw" } });
    const problem = new Promise((resolve) => socket.once("error", resolve));
    const answer = await socket
      .timeout(5000)
      .emitWithAck("chat-message", { content: "x".repeat(1001) });
    assert.deepEqual(await problem, { message: "Invalid message payload" });
    assert.equal(typeof answer.error, "string");
    for (const content of [1, "", null, undefined]) {
      const refused = await socket.timeout(5000).emitWithAck("chat-message", { content });
      assert.equal(typeof refused.error, "string", `content ${content} must be refused`);
    }
    socket.disconnect();
  });

  test("refused by the server shows as a failed message with the server's words", async () => {
    const swollen = "x".repeat(1001);
    const before = (page) =>
      page.routeWebSocket(/socket\.io/, (client) => {
        const server = client.connectToServer();
        client.onMessage((message) => server.send(String(message).replace("grow me", swollen)));
      });
    const ada = await Person.arrive(browser, gateway, "Ada", {
      path: "/?transport=websocket",
      before,
    });
    await ada.say("grow me");
    await ada.seesState("grow me", "failed");
    assert.match((await ada.messages()).at(-1).problem, /Refused by the server: ./);
    await ada.seesText("#toasts", /Invalid message payload/);
    await ada.leave();
  });
});
