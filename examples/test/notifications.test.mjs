// Notifications from Django in Chromium: all pages of a user, nobody else's.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { newVisitor, onSockeye, openPage } from "./browser.mjs";

// A page that has just been asked for has no script yet.
const isConnected = (page) => page.waitForFunction("typeof socket !== 'undefined' && socket.connected");

async function logIn(url, name) {
  const context = await newVisitor();
  const page = await openPage(context, url);
  await page.click(`button:text-is("${name}")`);
  await isConnected(page);
  return page;
}

async function another(page, url) {
  const tab = await openPage(page.context(), url);
  await isConnected(tab);
  return tab;
}

async function send(page, to, text) {
  await page.selectOption("[name=to]", to);
  await page.fill("[name=text]", text);
  // The answer to the one before is gone.
  await page.evaluate("at('answer').textContent = ''");
  await page.press("[name=text]", "Enter");
  await page.waitForFunction("at('answer').textContent !== ''");
  return page.textContent("#answer");
}

const news = (page) => page.$$eval("#news li", (items) => items.map((item) => item.textContent));
const reads = (page, count) => page.waitForFunction((wanted) => document.querySelectorAll("#news li").length === wanted, count);

test("a notification is shown on all pages of its user, and on nobody else's", async () => {
  const { urls: [url, other] } = await onSockeye("notifications/app.py");
  const [ada, ben, cleo] = await Promise.all([logIn(url, "Ada"), logIn(other, "Ben"), logIn(url, "Cleo")]);
  // Another browser of the same user, at another gateway.
  const [tab, phone] = [await another(ben, other), await logIn(url, "Ben")];
  assert.equal(await send(ada, "ben", "your order <b>is</b> on its way"), "Shown on 3 pages of Ben.");
  for (const page of [ben, tab, phone]) {
    await reads(page, 1);
    assert.deepEqual(await news(page), ["Adayour order <b>is</b> on its way"]);
    assert.equal(await page.textContent("#badge"), "1");
  }
  assert.equal(await send(ben, "cleo", "come over"), "Shown on 1 page of Cleo.");
  await reads(cleo, 1);
  // What was sent before this went to each page before it.
  assert.equal(await send(cleo, "ada", "the last one"), "Shown on 1 page of Ada.");
  await reads(ada, 1);
  assert.deepEqual(await Promise.all([ada, ben, tab, phone, cleo].map(news)), [
    ["Cleothe last one"],
    ...Array(3).fill(["Adayour order <b>is</b> on its way"]),
    ["Bencome over"],
  ]);
  // What the page does before its token ends.
  const { expiresAt } = await ada.evaluate("newToken().then((token) => socket.emitWithAck('token-refresh', token))");
  assert.ok(expiresAt > Date.now(), `${expiresAt} is over`);
  await cleo.context().close();
  // The gateway may hear of it a moment later.
  let told;
  do told = await send(ada, "cleo", "are you there?"); while (told !== "Cleo has no page open.");
});

test("notifications go on while a process of the site is killed, and a gateway", async () => {
  const { stage, urls: [url, other] } = await onSockeye("notifications/app.py");
  const [ada, ben] = await Promise.all([logIn(url, "Ada"), logIn(other, "Ben")]);
  await ben.evaluate("window.lost = []; socket.on('disconnect', (reason) => lost.push(reason)); undefined");
  await stage.workers[0].kill();
  assert.equal(await send(ada, "ben", "one"), "Shown on 1 page of Ben.");
  assert.deepEqual(await ben.evaluate("lost"), []);
  // The first one is asked first. Ben is at the other one.
  const before = await ada.evaluate("socket.id");
  await stage.gateways[0].kill();
  assert.equal(await send(ada, "ben", "two"), "Shown on 1 page of Ben.");
  await reads(ben, 2);
  assert.deepEqual(await ben.evaluate("lost"), []);
  await ada.waitForFunction((id) => socket.connected && socket.id !== id, before);
  // Until the nodes know each other again, the one that is asked cannot reach Ada's page, and says so.
  let told;
  do told = await send(ben, "ada", "three"); while (told !== "Shown on 1 page of Ada.");
  assert.equal((await news(ada))[0], "Benthree");
});

test("strangers get no token, forged tokens do not get in, and a user's page speaks for nobody", async () => {
  const { urls: [url] } = await onSockeye("notifications/app.py");
  const [ada, ben, stranger] = [await logIn(url, "Ada"), await logIn(url, "Ben"), await openPage(await newVisitor(), url)];
  const status = (path, options) => stranger.evaluate(([where, how]) => fetch(where, how).then((answer) => answer.status), [path, options]);
  assert.equal(await status("/token"), 401);
  const csrf = await stranger.getAttribute("[name=csrfmiddlewaretoken]", "value");
  const form = { method: "POST", headers: { "X-CSRFToken": csrf, "content-type": "application/x-www-form-urlencoded" }, body: "to=ada&text=hello" };
  assert.equal(await status("/notify", form), 401);
  assert.equal(await status("/notify", { ...form, headers: { "content-type": form.headers["content-type"] } }), 403);

  await stranger.addScriptTag({ url: "/socket.io/socket.io.js" });
  const connect = (token) =>
    stranger.evaluate((given) => new Promise((resolve) => {
      const socket = io({ auth: { token: given }, forceNew: true });
      socket.on("connect", () => resolve("connected"));
      socket.on("connect_error", (error) => resolve(error.message));
    }), token);
  assert.equal(await connect(undefined), "Authentication required");
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const forged = `${part({ alg: "HS256", typ: "JWT" })}.${part({ sub: "ada", exp: Math.floor(Date.now() / 1000) + 600 })}`;
  assert.equal(await connect(`${forged}.${createHmac("sha256", "guessed").update(forged).digest("base64url")}`), "Invalid token");

  await ben.evaluate("socket.emit('join', 'ada'); socket.emit('notification', { id: 'x', from: 'Ada', text: 'forged' }, () => {})");
  assert.equal(await send(ben, "ada", "real"), "Shown on 1 page of Ada.");
  assert.deepEqual([await news(ada), await news(ben)], [["Benreal"], []]);
});
