// The library behind the page, alone in a browser: what only a browser tells it.

import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { Gateway } from "./gateway.mjs";
import { launchBrowser } from "./person.mjs";

const PAGE = `<!doctype html><script src="/socket.io/socket.io.min.js"></script><script type="module">
  import { Client } from "/client.js";
  const links = (window.links = []);
  window.client = new Client(io, { backoff: { firstMs: 60000, maxMs: 60000 } });
  client.watch("link", (link) => links.push(link));
  client.open();
</script>`;

let browser;
let script;

before(async () => {
  browser = await launchBrowser();
  const input = join(dirname(fileURLToPath(import.meta.url)), "../../sdk/client/src/index.ts");
  const bundle = await rolldown({ input });
  const { output } = await bundle.generate({ format: "esm" });
  await bundle.close();
  script = output[0].code;
});

after(async () => {
  await browser?.close();
});

async function pageOf(gateway) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.route("**/try", (route) => route.fulfill({ contentType: "text/html", body: PAGE }));
  await page.route("**/client.js", (route) =>
    route.fulfill({ contentType: "text/javascript", body: script }),
  );
  await page.goto(`${gateway.url}/try`);
  return page;
}

const reaches = (page, phase) =>
  page.waitForFunction((wanted) => window.links?.at(-1)?.phase === wanted, phase);
const says = (page, content) =>
  page.evaluate((text) => window.client.send("chat-message", { content: text }).answer(), content);

test("a network that comes back ends a wait of the client's own", async (t) => {
  const gateway = await Gateway.start();
  t.after(() => gateway.stop());
  const page = await pageOf(gateway);
  await reaches(page, "online");
  await gateway.kill();
  await reaches(page, "waiting");
  await page.context().setOffline(true);
  const said = says(page, "kept");
  await gateway.restart();
  await page.context().setOffline(false);
  await reaches(page, "online");
  assert.equal(typeof (await said).id, "string");
  await page.context().close();
});

test("a network that comes back does not end a wait that the server asked for", async (t) => {
  const file = join(mkdtempSync(join(tmpdir(), "sockeye-web-")), "sockeye.toml");
  writeFileSync(file, `[rates]\nconnects = "1/600s"\n`);
  const gateway = await Gateway.start("--config", file);
  t.after(() => gateway.stop());
  const first = await pageOf(gateway);
  await reaches(first, "online");
  const second = await pageOf(gateway);
  await reaches(second, "waiting");
  const phases = await second.evaluate(() => {
    window.dispatchEvent(new Event("online"));
    document.dispatchEvent(new Event("visibilitychange"));
    return window.links.map(({ phase, given }) => [phase, given]);
  });
  assert.deepEqual(phases.at(-1), ["waiting", true]);
  // In one go: the server may refuse the new attempt at once.
  const phase = await second.evaluate(() => {
    window.client.retryNow();
    return window.links.at(-1).phase;
  });
  assert.equal(phase, "connecting");
  for (const page of [first, second]) await page.context().close();
});
