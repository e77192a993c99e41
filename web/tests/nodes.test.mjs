// Two nodes behind a proxy without memory: one room, one count, and a person whose node is gone is on the other one.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Gateway } from "./gateway.mjs";
import { Person, launchBrowser } from "./person.mjs";
import { startRedis } from "./redis.mjs";

const folder = mkdtempSync(join(tmpdir(), "sockeye-nodes-"));
let browser;
let redis;
let nodes;
let proxy;

/** Each connection goes to the next node that takes it. */
async function startProxy() {
  let next = 0;
  const forward = (client, tries) => {
    const node = nodes[next++ % nodes.length];
    const upstream = connect(node.port, "127.0.0.1");
    upstream.once("connect", () => {
      client.pipe(upstream).pipe(client);
    });
    upstream.once("close", () => client.destroy());
    upstream.on("error", () => {});
    upstream.once("error", () => {
      if (tries > 0 && upstream.bytesRead === 0 && upstream.bytesWritten === 0) {
        upstream.removeAllListeners("close");
        forward(client, tries - 1);
      }
    });
    client.on("error", () => upstream.destroy());
    client.once("close", () => upstream.destroy());
  };
  const server = createServer((client) => forward(client, nodes.length));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

before(async () => {
  const started = await startRedis(folder);
  redis = started.redis;
  const { url } = started;
  const config = join(folder, "sockeye.toml");
  const presence = `[namespaces."/".presence]\nenabled = true\ninfo = ["name"]\ngrace = "1s"\n`;
  writeFileSync(
    config,
    `[cluster]\nadapter = "redis"\nurls = ["${url}"]\nsecret = "s"\n${presence}`,
  );
  nodes = [await Gateway.start("--config", config), await Gateway.start("--config", config)];
  proxy = await startProxy();
  browser = await launchBrowser();
});

after(async () => {
  await browser?.close();
  proxy?.close();
  for (const node of nodes ?? []) await node.stop();
  redis?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

async function seesPeople(person, names) {
  await person.page.waitForFunction(
    (wanted) =>
      [...document.querySelectorAll("#who bdi")].map((item) => item.textContent).join("|") ===
      wanted,
    names.join("|"),
  );
}

test("the page shows who is here on both nodes, also on a small screen and without a mouse", async () => {
  const small = { viewport: { width: 360, height: 640 } };
  const ada = await Person.arrive(browser, nodes[0], "Ada", small);
  const bob = await Person.arrive(browser, nodes[1], "Bob");
  const odd = "<img src=x onerror=alert(1)>";
  const eve = await Person.arrive(browser, nodes[1], odd);
  await ada.seesPresence(3);
  // By keyboard, and back to where one was.
  await ada.page.focus("#presence");
  await ada.page.keyboard.press("Enter");
  await seesPeople(ada, [odd, "Ada", "Bob"]);
  assert.equal(await ada.page.locator("#who img").count(), 0);
  const [inner, scrolled] = await ada.page.evaluate(() => [innerWidth, document.body.scrollWidth]);
  assert.ok(scrolled <= inner, `${scrolled} px of page on ${inner} px of screen`);
  const box = await ada.page.locator("#who-dialog").boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 360, JSON.stringify(box));
  // It follows who comes and goes, on the other node as well.
  const dan = await Person.arrive(browser, nodes[1], "Dan");
  await seesPeople(ada, [odd, "Ada", "Bob", "Dan"]);
  await dan.leave();
  await eve.leave();
  await seesPeople(ada, ["Ada", "Bob"]);
  await ada.page.keyboard.press("Escape");
  assert.equal(await ada.page.evaluate(() => document.activeElement.id), "presence");
  // A room of one's own has oneself.
  await bob.joinRoom("den");
  await bob.page.click("#presence");
  await seesPeople(bob, ["Bob"]);
  for (const person of [ada, bob]) {
    person.assertNoErrors();
    await person.leave();
  }
});

test("people of two nodes are in one room and one count, and a node that dies costs nobody the room", async () => {
  const url = `http://127.0.0.1:${proxy.address().port}`;
  const ada = await Person.arrive(browser, { url }, "Ada");
  const bob = await Person.arrive(browser, nodes[0], "Bob");
  const eve = await Person.arrive(browser, nodes[1], "Eve");
  for (const person of [ada, bob, eve]) await person.seesPresence(3);
  await ada.say("to everybody");
  for (const person of [bob, eve]) assert.equal(await person.sees("to everybody"), 1);
  await bob.say("from the first node");
  await eve.say("from the second node");
  for (const person of [ada, bob, eve]) {
    assert.equal(await person.sees("from the first node"), 1);
    assert.equal(await person.sees("from the second node"), 1);
  }
  await bob.leave();
  for (const person of [ada, eve]) await person.seesPresence(2);
  // Ada was on either node; she finds the one that is left.
  await nodes[0].kill();
  await ada.isOnline();
  await eve.say("is anybody there?");
  assert.equal(await ada.sees("is anybody there?"), 1);
  await ada.say("I am");
  assert.equal(await eve.sees("I am"), 1);
  for (const person of [ada, eve]) await person.seesPresence(2);
  for (const person of [ada, eve]) person.assertNoErrors();
});
