// The console: who gets in, what each page shows, what it does, and that names stay text.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { ATTACK, PHONE, accessibilityProblems } from "./judge.mjs";
import { Operator, PAGES, Watched } from "./operator.mjs";
import { launchBrowser } from "./person.mjs";

const run = promisify(execFile);

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

async function sidewards(page) {
  // A phone's browser that makes room for what is too wide has another `innerWidth` then.
  return await page.evaluate(() => document.scrollingElement.scrollWidth - screen.width);
}

/** The session of a client, as its page's place. */
const sessionOf = (socket) => `session/${encodeURIComponent(socket.id)}`;

describe("the door", () => {
  test("says why a key is refused, and opens to the right one until one leaves", async () => {
    const eve = await Operator.come(browser, watched);
    assert.deepEqual(await accessibilityProblems(eve.page), []);
    await eve.giveKey("sockeye_wrong");
    await eve.sees("#login-problem", /./);
    assert.equal(await eve.page.locator("#main h1").count(), 0);
    await eve.giveKey(watched.keys.ops.key);
    await eve.isInside();
    await eve.sees("#sentence", /All is well/);
    await eve.sees("#key-name", /^ops$/);
    await eve.page.click("#leave");
    await eve.page.waitForSelector("#login:not([hidden])");
    await eve.page.reload();
    await eve.page.waitForSelector("#login:not([hidden])");
    assert.equal(await eve.page.inputValue("#key"), "");
    eve.assertNoErrors();
    await eve.leave();
  });

  test("lets no script read the login, and opens nothing without the page's token", async () => {
    const ops = await Operator.enter(browser, watched);
    const [cookies, storage, forged] = await ops.page.evaluate(async () => {
      const body = JSON.stringify({ event: "x", args: [] });
      const answer = await fetch("/v1/emit", { method: "POST", body });
      const read = await fetch("/v1/node/config");
      const answers = [answer.status, read.status];
      return [document.cookie, JSON.stringify({ ...localStorage }), answers];
    });
    assert.equal(cookies, "");
    assert.equal(storage.includes(watched.keys.ops.key), false);
    assert.deepEqual(forged, [403, 403]);
    await ops.leave();
  });

  test("opens again at the same page after the login has ended", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.open("rooms");
    await ops.context.clearCookies();
    await ops.sees("#login-problem", /login has ended/);
    assert.equal(await ops.page.locator("#main h1").count(), 0, "nothing may stay on the screen");
    await ops.giveKey(watched.keys.ops.key);
    await ops.sees("#main h1", /^Rooms$/);
    assert.match(ops.page.url(), /#\/rooms$/);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("stays open over a reload", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.open("ends");
    await ops.page.reload();
    await ops.sees("#main h1", /^Ends$/);
    ops.assertNoErrors();
    await ops.leave();
  });
});

describe("several tabs", () => {
  test("act with one login, and show whose it is", async () => {
    const first = await Operator.enter(browser, watched);
    const second = await first.otherTab();
    await second.isInside();
    await second.page.click("#leave");
    await first.page.waitForSelector("#login:not([hidden])");
    await second.giveKey(watched.keys.look.key);
    await first.page.bringToFront();
    await first.sees("#key-name", /^look$/);
    await first.isInside();
    first.assertNoErrors();
    await first.leave();
  });

  test("end a login whose token is another one's", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.page.evaluate(() => localStorage.setItem("sockeye.console", "another"));
    await ops.page.reload();
    await ops.page.waitForSelector("#login:not([hidden])");
    await ops.giveKey(watched.keys.ops.key);
    await ops.isInside();
    // As a second login of this browser at another address of the host would do.
    await ops.page.evaluate(async (key) => {
      const headers = { "Content-Type": "application/json" };
      await fetch("/console/login", { method: "POST", headers, body: JSON.stringify({ key }) });
    }, watched.keys.look.key);
    await ops.sees("#login-problem", /login has ended/);
    await ops.leave();
  });
});

describe("an answer that is none", () => {
  test("is told when the node hangs, and no longer when it goes on", async () => {
    const hanging = await Watched.start();
    const ops = await Operator.enter(browser, hanging);
    await hanging.gateway.freeze();
    await ops.sees("#sentence", /does not answer/);
    hanging.gateway.thaw();
    await ops.page.waitForFunction(
      () => !document.querySelector("#sentence").textContent.includes("does not answer"),
    );
    await ops.leave();
    await hanging.stop();
  });

  test("is told when something else answers in the node's place", async () => {
    const ops = await Operator.enter(browser, watched);
    const html = { status: 200, contentType: "text/html", body: "<html>Sign in</html>" };
    await ops.page.route("**/v1/node/**", (route) => route.fulfill(html));
    await ops.sees("#sentence", /something else answers/);
    await ops.page.evaluate(() => (location.hash = "#/audit"));
    await ops.sees(".notice.bad", /something else answers/);
    await ops.page.unroute("**/v1/node/**");
    await ops.sees("#sentence", /All is well/);
    await ops.page.waitForSelector(".notice.bad", { state: "hidden" });
    ops.assertNoErrors();
    await ops.leave();
  });
});

describe("the file", () => {
  test("is served with a policy that forbids foreign and inline code", async () => {
    const response = await fetch(`${watched.url}/console/`);
    const policy = response.headers.get("content-security-policy") ?? "";
    for (const rule of [/default-src 'none'/, /script-src 'self'/, /frame-ancestors 'none'/])
      assert.match(policy, rule);
    assert.doesNotMatch(policy, /unsafe/);
    const html = await response.text();
    assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/i);
  });

  test("is not served to clients", async () => {
    const response = await fetch(`${watched.gateway.url}/console/`);
    assert.doesNotMatch(await response.text(), /Sockeye console/);
  });
});

describe("every page", () => {
  for (const colorScheme of ["light", "dark"])
    test(`has no finding of axe in ${colorScheme} colours`, async () => {
      const ada = await watched.client("ada", ["den"]);
      const ops = await Operator.enter(browser, watched, "ops", { colorScheme });
      for (const place of [
        ...PAGES,
        sessionOf(ada),
        "rooms?room=den",
        "session/AAAAAAAAAAAAAAAAAAAA",
      ]) {
        await ops.open(place);
        assert.deepEqual(await accessibilityProblems(ops.page), [], place);
      }
      ops.assertNoErrors();
      ada.disconnect();
      await ops.leave();
    });

  test("fits 360 px, with its menu shut and open", async () => {
    const long = `room-${"x".repeat(40)}`;
    const ada = await watched.client("a".repeat(40), [long]);
    const ops = await Operator.enter(browser, watched, "ops", PHONE);
    for (const place of [...PAGES, sessionOf(ada), `rooms?room=${long}`]) {
      await ops.open(place);
      assert.ok((await sidewards(ops.page)) <= 0, `${place} is too wide`);
    }
    await ops.page.click("#menu");
    assert.equal(await ops.page.getAttribute("#menu", "aria-expanded"), "true");
    assert.ok((await sidewards(ops.page)) <= 0);
    await ops.page.click('#pages a[href="#/nodes"]');
    await ops.sees("#main h1", /^Nodes$/);
    assert.equal(await ops.page.isVisible("#side"), false);
    ops.assertNoErrors();
    ada.disconnect();
    await ops.leave();
  });

  test("keeps colours that were chosen, and follows the system otherwise", async () => {
    const ops = await Operator.enter(browser, watched, "ops", { colorScheme: "dark" });
    const theme = () => ops.page.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), "dark");
    await ops.page.click("#theme");
    assert.equal(await theme(), "light");
    await ops.page.reload();
    await ops.isInside();
    assert.equal(await theme(), "light");
    await ops.leave();
  });
});

describe("an unknown place", () => {
  test("is the overview, whatever it is called", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.open("rooms");
    await ops.page.evaluate(() => (location.hash = "#/constructor"));
    await ops.sees("#main h1", /^Overview$/);
    ops.assertNoErrors();
    await ops.leave();
  });
});

describe("names from outside", () => {
  test("have an edge in a question, and cannot turn its text round", async () => {
    const turning = await watched.client("eve\u202e leaves");
    const ops = await Operator.enter(browser, watched);
    await ops.open(sessionOf(turning));
    await ops.page.click('button:text-is("Disconnect…")');
    await ops.sees("#confirm-text .named", /^eve\\u202e leaves$/);
    // Back: the question goes with its page.
    await ops.page.evaluate(() => (location.hash = "#/sessions"));
    await ops.page.waitForSelector("#confirm", { state: "hidden" });
    assert.equal(turning.connected, true);
    turning.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });

  test("stay text on every page, when they are rooms, users and events", async () => {
    const mallory = await watched.client(ATTACK, [ATTACK]);
    const ops = await Operator.enter(browser, watched);
    const room = encodeURIComponent(ATTACK);
    const shown = (place) => ops.open(place).then(() => ops.sees("#main", /<img src=x/));
    await shown(sessionOf(mallory));
    await shown("sessions");
    await shown("rooms");
    await shown(`rooms?room=${room}`);
    await ops.open(`try?room=${room}`);
    await ops.sees("#main pre", /<img src=x/);
    // Cut off: one that says goodbye has left its namespace before it ends.
    mallory.io.reconnection(false);
    mallory.io.engine.close();
    await shown("ends");
    assert.equal(await ops.page.evaluate(() => window.attacked), undefined);
    assert.equal(await ops.page.locator("#main img").count(), 0);
    ops.assertNoErrors();
    await ops.leave();
  });
});

describe("looking", () => {
  test("finds a session by its user, its socket and its room", async () => {
    const grace = await watched.client("grace", ["reef"]);
    const ops = await Operator.enter(browser, watched);
    for (const query of ["user=grace", `id=${grace.id}`, "room=reef"]) {
      await ops.open(`sessions?${query}`);
      await ops.sees("tbody td", /^grace$/);
      assert.equal(await ops.page.locator("tbody tr").count(), 1, query);
    }
    await ops.page.click("tbody a");
    await ops.sees("#main dd", /^grace$/);
    await ops.page.click('.chip:has-text("reef")');
    await ops.sees("#main h1", /Room reef/);
    await ops.sees("tbody th", new RegExp(grace.id));
    grace.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });

  test("stays with a session whose first socket leaves its namespace", async () => {
    const two = await Watched.start('\n[namespaces."/more"]\nclient_joins = true\n');
    const zoe = await two.client("zoe");
    const more = zoe.io.socket("/more", { auth: zoe.auth });
    if (!more.connected) await new Promise((resolve) => more.once("connect", resolve));
    const ops = await Operator.enter(browser, two);
    await ops.open(sessionOf(zoe));
    await ops.sees("h2", /^Socket \/more$/);
    zoe.disconnect();
    await ops.sees(".about", /is gone; its session goes on/);
    await ops.sees("h2", /^Socket \/more$/);
    assert.equal(await ops.page.locator("#main h2").count(), 2);
    more.disconnect();
    ops.assertNoErrors();
    await ops.leave();
    await two.stop();
  });

  test("keeps a session on the screen when a shard does not answer", async () => {
    const kim = await watched.client("kim");
    const ops = await Operator.enter(browser, watched);
    await ops.open(sessionOf(kim));
    const json = { sessions: [], matched: 0, complete: false };
    await ops.page.route("**/v1/node/sessions*", (route) => route.fulfill({ json }));
    await ops.sees(".notice.bad", /A shard did not answer in time/);
    await ops.sees("#main dd", /^kim$/);
    await ops.page.unrouteAll({ behavior: "ignoreErrors" });
    await ops.page.waitForSelector(".notice.bad", { state: "hidden" });
    kim.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });

  test("keeps the focus on a room that changes its place", async () => {
    const [first, second] = ["focus-a", "focus-b"];
    const early = [await watched.client("u", [first, second]), await watched.client("v", [second])];
    const ops = await Operator.enter(browser, watched);
    await ops.open("rooms?contains=focus-");
    const top = (room) =>
      ops.page.waitForSelector(`tbody tr:first-child a:has-text("${room}")`, { state: "attached" });
    await top(second);
    await ops.page.focus(`tbody a:has-text("${first}")`);
    const late = [await watched.client("w", [first]), await watched.client("x", [first])];
    await top(first);
    assert.equal(await ops.page.evaluate(() => document.activeElement.textContent), first);
    for (const socket of [...early, ...late]) socket.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });

  test("shows figures that go on, and the value under the pointer", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.page.waitForFunction(() => document.querySelectorAll(".plot path.line").length > 0);
    await ops.page.hover(".plot-area >> nth=0");
    await ops.page.waitForSelector(".plot-area .reading", { state: "attached" });
    assert.equal(await ops.page.locator(".plot-area .reading").count(), 6);
    await ops.page.getByRole("radio", { name: "5 min", exact: true }).check();
    await ops.page.click("text=Pause");
    await ops.sees(".about", /Paused/);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("tells latency above the last bound as such", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.page.route("**/v1/node/overview*", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      for (const point of json.points)
        Object.assign(point, { message_p99_ms: 500, message_p99_over: true });
      await route.fulfill({ response, json });
    });
    await ops.sees(".tile-value", /^> 500 ms$/);
    await ops.sees(".legend .key", /^message > 500 ms$/);
    await ops.page.unrouteAll({ behavior: "ignoreErrors" });
    ops.assertNoErrors();
    await ops.leave();
  });

  test("leaves a marked text marked", async () => {
    const nina = await watched.client("nina");
    const ops = await Operator.enter(browser, watched);
    await ops.open(sessionOf(nina));
    const fact = (name) => `dl.facts div:has(dt:text-is("${name}")) dd`;
    await ops.page.locator(fact("Socket")).selectText();
    const connected = await ops.page.textContent(fact("Connected"));
    await ops.page.waitForFunction(
      ([text]) => ![...document.querySelectorAll("dd")].some((dd) => dd.textContent === text),
      [connected],
    );
    assert.equal(await ops.page.evaluate(() => String(getSelection())), nina.id);
    nina.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });

  test("shows where settings come from", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.open("config");
    await ops.page.fill(".filters input", "auth.required");
    await ops.sees("tbody tr", /auth\.required.*true.*sockeye\.toml/);
    await ops.sees('[aria-label="Limits"] tbody tr', /^memory[\d.]+ %[\d.,]+ MiB/);
    const text = await ops.page.textContent("#main");
    assert.equal(text.includes(watched.keys.ops.key), false);
    ops.assertNoErrors();
    await ops.leave();
  });
});

describe("acting", () => {
  test("disconnects a socket after a question that names it, and is in the audit", async () => {
    const tom = await watched.client("tom");
    const ops = await Operator.enter(browser, watched);
    await ops.open(sessionOf(tom));
    await ops.page.click('button:text-is("Disconnect…")');
    await ops.sees("#confirm-text", new RegExp(`${tom.id} of tom`));
    await ops.page.click("#confirm-no");
    assert.equal(tom.connected, true);
    const gone = new Promise((resolve) => tom.once("disconnect", resolve));
    await ops.page.click('button:text-is("Disconnect and close…")');
    await ops.page.click("#confirm-yes");
    await gone;
    await ops.sees(".notice.ok", /tom is put out/);
    await ops.sees("h2", /^Ended$/);
    await ops.open("audit");
    await ops.sees("tbody tr", /ops.*disconnect/);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("sends an event, and so do the programs that the page shows", async () => {
    const ines = await watched.client("ines", ["den"]);
    const heard = [];
    ines.on("news", (...args) => heard.push(args));
    const ops = await Operator.enter(browser, watched);
    await ops.open("try?room=den");
    await ops.page.fill("textarea", `["it's \\"here\\" 🐟", 1234567890123456789, null]`);
    await ops.page.click('button:text-is("Send")');
    await ops.sees("pre", /"accepted": true/);
    const files = { curl: ["bash", "a.sh"], Node: ["node", "a.mjs"], Python: ["python3", "a.py"] };
    for (const [name, [program, file]] of Object.entries(files)) {
      await ops.page.getByRole("radio", { name }).check();
      const text = await ops.page.textContent('pre[aria-label="The same call as a program"]');
      const path = join(watched.folder, file);
      writeFileSync(path, text);
      const env = { ...process.env, SOCKEYE_API_KEY: watched.keys.ops.key };
      const { stdout } = await run(program, [path], { env });
      assert.match(stdout, /accepted/, name);
    }
    await ines.timeout(30_000).emitWithAck("join", "last");
    // The client's own numbers have 53 bits.
    const number = Number("1234567890123456789");
    assert.deepEqual(heard, new Array(4).fill([`it's "here" 🐟`, number, null]));
    ines.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });

  test("sends once, however often one presses, and however the answer is lost", async () => {
    const ola = await watched.client("ola", ["quay"]);
    const heard = [];
    ola.on("news", (...args) => heard.push(args));
    const all = () => ola.timeout(30_000).emitWithAck("join", "last");
    const ops = await Operator.enter(browser, watched);
    await ops.open("try?room=quay");
    let answer;
    const held = new Promise((resolve) => (answer = resolve));
    await ops.page.route("**/v1/emit", async (route) => {
      const response = await route.fetch();
      await held;
      await route.fulfill({ response });
    });
    await ops.page.dblclick('button:text-is("Send")');
    assert.equal(await ops.page.isDisabled('button:text-is("Send")'), true);
    const event = ops.page.getByLabel("Event", { exact: true });
    for (let i = 0; i < 3; i += 1) await event.press("Enter");
    answer();
    await ops.sees("pre", /"accepted": true/);
    await all();
    assert.equal(heard.length, 1);

    await ops.page.unroute("**/v1/emit");
    await ops.page.route("**/v1/emit", async (route) => {
      await route.fetch();
      await route.abort();
    });
    await ops.page.click('button:text-is("Send")');
    await ops.sees("pre", /may have been sent/);
    await ops.page.unroute("**/v1/emit");
    await ops.page.click('button:text-is("Send")');
    await ops.sees("pre", /"accepted": true/);
    await all();
    assert.equal(heard.length, 2, "the lost one was sent, and is not sent again");
    await ops.page.click('button:text-is("Send")');
    await ops.page.waitForSelector('button:text-is("Send"):not([disabled])');
    await all();
    assert.equal(heard.length, 3, "after an answer it is another event");
    ola.disconnect();
    await ops.leave();
  });

  test("is in the audit, and programs do not push it out", async () => {
    const ops = await Operator.enter(browser, watched);
    const headers = {
      Authorization: `Bearer ${watched.keys.ops.key}`,
      "Content-Type": "application/json",
    };
    const body = JSON.stringify({ users: ["nobody"] });
    for (let i = 0; i < 510; i += 1) {
      const answer = await fetch(`${watched.url}/v1/disconnect`, { method: "POST", headers, body });
      assert.ok(answer.ok, await answer.text());
    }
    await ops.open("audit");
    await ops.sees(".found", /^The last 5\d\d actions/);
    await ops.sees("tbody tr", /opsprogramdisconnect/);
    await ops.sees("tbody tr", /opsconsolelogin/);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("asks before a node is drained, and says what becomes of it", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.open("nodes");
    await ops.page.reload();
    await ops.sees("tbody th", /\(this one\)/);
    await ops.page.click("tbody button");
    await ops.sees("#confirm-text", /leaves the cluster.*process stays/);
    await ops.page.click("#confirm-no");
    ops.assertNoErrors();
    await ops.leave();
  });

  test("does not drain another process that has the node's number by now", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.open("nodes");
    await ops.page.click("tbody button");
    await ops.page.route("**/v1/nodes", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      for (const node of json.nodes) node.life += 4096;
      await route.fulfill({ response, json });
    });
    await ops.page.click("#confirm-yes");
    await ops.sees(".notice.warn", /is gone: nothing was done/);
    await ops.page.unrouteAll({ behavior: "ignoreErrors" });
    await ops.sees("#main .badge", /^ready$/);
    ops.assertNoErrors();
    await ops.leave();
  });

  test("says what is wrong with arguments before they are sent", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.open("try?room=den");
    await ops.page.fill("textarea", '{"no": "array"}');
    await ops.sees("#args-problem", /Write an array/);
    await ops.page.click('button:text-is("Send")');
    await ops.page.waitForFunction(() => document.activeElement.tagName === "TEXTAREA");
    await ops.sees("pre", /Nothing was sent yet/);
    // The program of before would be for what is no longer in the form.
    assert.equal(await ops.page.textContent('pre[aria-label="The same call as a program"]'), "");
    assert.equal(await ops.page.isDisabled('button:text-is("Copy")'), true);
    await ops.leave();
  });

  test("is not offered to a key that may only read", async () => {
    const maya = await watched.client("maya");
    const look = await Operator.enter(browser, watched, "look");
    await look.open(sessionOf(maya));
    for (const text of ["Disconnect…", "Disconnect and close…"])
      assert.equal(await look.page.isDisabled(`button:text-is("${text}")`), true);
    await look.sees("#main", /lacks the scope disconnect/);
    await look.open("try");
    assert.equal(await look.page.isDisabled('button:text-is("Send")'), true);
    await look.sees("#main", /lacks the scope emit/);
    await look.open("nodes");
    assert.equal(await look.page.isDisabled("tbody button"), true);
    maya.disconnect();
    look.assertNoErrors();
    await look.leave();
  });
});

describe("by keyboard alone", () => {
  test("one gets in, past the menu, to a session, and takes an action back", async () => {
    const linus = await watched.client("linus");
    const ops = await Operator.come(browser, watched);
    const { page } = ops;
    const press = (key) => page.keyboard.press(key);
    const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
    const tabTo = async (pattern) => {
      for (let i = 0; i < 60; i += 1) {
        await press("Tab");
        if (pattern.test(await focused())) return;
      }
      throw new Error(`no element like ${pattern} within 60 steps`);
    };
    // The field has the focus already.
    await page.keyboard.type(watched.keys.ops.key);
    await press("Enter");
    await ops.isInside();
    await page.evaluate(() => document.activeElement.blur());
    await tabTo(/^Skip to the page$/);
    await press("Enter");
    await page.waitForFunction(() => document.activeElement.id === "main");
    await page.evaluate(() => document.activeElement.blur());
    await tabTo(/^Sessions$/);
    await press("Enter");
    await page.waitForFunction(() => document.activeElement.tagName === "H1");
    await page.waitForSelector("tbody a");
    await press("Tab");
    await page.keyboard.type("linus");
    await press("Enter");
    await ops.sees(".found", /^1 session /);
    await tabTo(new RegExp(await page.textContent("tbody a")));
    assert.equal(await page.evaluate(() => document.activeElement.matches(":focus-visible")), true);
    // The scrolling region comes before its first link.
    await page.focus("tbody a");
    await press("Enter");
    await page.waitForSelector('button:text-is("Disconnect…")');
    await tabTo(/^Disconnect…$/);
    await press("Enter");
    await page.waitForFunction(() => document.activeElement.id === "confirm-no");
    await press("Escape");
    await page.waitForFunction(() => document.activeElement.textContent === "Disconnect…");
    assert.equal(linus.connected, true);
    linus.disconnect();
    ops.assertNoErrors();
    await ops.leave();
  });

  test("the plots are read step by step", async () => {
    const ops = await Operator.enter(browser, watched);
    await ops.page.waitForSelector(".plot-area[aria-valuetext]");
    await ops.page.focus(".plot-area >> nth=0");
    await ops.page.keyboard.press("End");
    await ops.page.waitForSelector(".plot-area .reading", { state: "attached" });
    const text = await ops.page.getAttribute(".plot-area >> nth=0", "aria-valuetext");
    assert.match(text, /^\d\d:\d\d:\d\d: sessions .*, connections /);
    await ops.page.keyboard.press("Escape");
    await ops.page.waitForSelector(".plot-area .reading", { state: "detached" });
    await ops.leave();
  });
});
