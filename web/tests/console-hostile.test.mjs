// People who mean harm: names that are scripts on every page, and pages of other sites that send what an operator's browser would.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { ATTACK } from "./judge.mjs";
import { Operator, PAGES, Watched } from "./operator.mjs";
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

/** Other ways out of a text: of an attribute, a script, a style, a template, an address. */
const ATTACKS = [
  ATTACK,
  `"><svg/onload=window.attacked=1>`,
  `'-alert(1)-'</script><script>window.attacked=1</script>`,
  `javascript:window.attacked=1//`,
  `\${window.attacked=1}{{window.attacked=1}}`,
];

const api = (path, init = {}) =>
  fetch(`${watched.url}${path}`, {
    ...init,
    headers: { Authorization: `Bearer ${watched.keys.ops.key}`, ...init.headers },
  });

async function actions() {
  return (await (await api("/v1/node/audit")).json()).actions;
}

async function assertUntouched(ops, place) {
  assert.equal(await ops.page.evaluate(() => window.attacked), undefined, place);
  const strange = "#main img, #main script, #main iframe, #main [onload], #main [onerror]";
  assert.equal(await ops.page.locator(strange).count(), 0, place);
  const links = await ops.page.locator("a").evaluateAll((all) => all.map((link) => link.href));
  for (const link of links) assert.doesNotMatch(link, /^(javascript|data|vbscript):/i, place);
}

describe("names that are scripts", () => {
  for (const attack of ATTACKS)
    test(`are text on every page: ${attack.slice(0, 24)}`, async () => {
      const mallory = await watched.client(attack, [attack]);
      const ops = await Operator.enter(browser, watched);
      // What people did has the names, too: an event, a trace and a recording.
      await api("/v1/emit", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ event: attack, args: [attack], rooms: [attack] }),
      });
      const name = encodeURIComponent(attack);
      await (await api(`/v1/trace?user=${name}&seconds=1&record=true`)).text();
      await ops.open(`trace?${new URLSearchParams({ event: attack })}`);
      await ops.page.click('#main button:text-is("Follow")');
      await ops.sees("#main [role=status]", /^Following /);
      mallory.emit(attack, attack);
      await ops.page.waitForSelector("#main tbody tr");
      await assertUntouched(ops, "trace");
      for (const place of [
        ...PAGES,
        `session/${encodeURIComponent(mallory.id)}`,
        `session/${name}`,
        `rooms?room=${name}`,
        `sessions?user=${name}`,
        `try?room=${name}`,
        `trace?user=${name}`,
        name,
      ]) {
        await ops.open(place);
        await assertUntouched(ops, place);
      }
      await ops.open("audit");
      await ops.sees("#main td", /, recorded$/);
      // The node refuses the id of a session that is none; Chromium reports that.
      assert.deepEqual(
        ops.errors.filter((error) => !/status of 400/.test(error)),
        [],
      );
      mallory.disconnect();
      await ops.leave();
    });
});

/** Each is what a page of another site can send without asking. */
const FORGED = `<!doctype html><title>cats</title><body><script>
  const at = new URLSearchParams(location.search).get("at");
  const paths = ["/v1/node/drain", "/v1/emit", "/v1/disconnect", "/console/logout", "/console/login"];
  const body = JSON.stringify({ namespace: "/", event: "forged", args: [], key: "x" });
  (async () => {
    const done = [];
    for (const path of paths)
      for (const type of ["text/plain", "application/json", "application/x-www-form-urlencoded"])
        done.push(fetch(at + path, { method: "POST", mode: type === "text/plain" ? "no-cors" : "cors", credentials: "include",
          headers: { "Content-Type": type }, body }).then((a) => path + " " + a.type + " " + a.status, () => path + " blocked"));
    for (const path of ["/v1/trace?share=100%25&record=true&seconds=5", "/v1/node/sessions", "/metrics"])
      done.push(fetch(at + path, { credentials: "include" }).then(() => path + " READ", () => path + " blocked"));
    for (const path of paths) {
      const form = Object.assign(document.createElement("form"), { method: "post", action: at + path, target: "hole", enctype: "text/plain" });
      form.append(Object.assign(document.createElement("input"), { name: '{"event":"forged","x":"', value: '"}' }));
      document.body.append(form);
      form.submit();
    }
    window.answers = await Promise.all(done);
  })();
</script><iframe name="hole"></iframe></body>`;

describe("pages of other sites", () => {
  for (const host of ["127.0.0.1", "localhost"])
    test(`do and read nothing with an operator's login, from ${host}`, async () => {
      const site = createServer((_, answer) => {
        answer.setHeader("Content-Type", "text/html");
        answer.end(FORGED);
      });
      await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
      const ada = await watched.client("ada", ["den"]);
      const ops = await Operator.enter(browser, watched);
      const before = await actions();
      const heard = [];
      ada.onAny((event) => heard.push(event));
      const page = await ops.context.newPage();
      const at = encodeURIComponent(watched.url.replace("127.0.0.1", host));
      await page.goto(`http://${host}:${site.address().port}/?at=${at}`);
      await page.waitForFunction(() => window.answers, undefined, { timeout: 30_000 });
      const answers = await page.evaluate(() => window.answers);
      assert.ok(!answers.some((answer) => answer.endsWith("READ")), answers.join("\n"));
      assert.ok(!answers.some((answer) => / 2\d\d$/.test(answer)), answers.join("\n"));
      await page.close();
      // Nothing was done, nobody was put out, the node takes clients, and the login is still there.
      assert.deepEqual(await actions(), before);
      assert.equal(ada.connected, true);
      assert.deepEqual(heard, []);
      assert.equal((await fetch(`${watched.url}/ready`)).status, 200);
      await ops.open("sessions");
      await ops.sees("#main td, #main th", /ada/);
      ada.disconnect();
      await ops.leave();
      site.close();
    });
});
