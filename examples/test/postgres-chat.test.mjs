// The chat with PostgreSQL in Chromium: what is acknowledged is in the table, once, whatever dies.
import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { WAIT_MS, atEnd, newVisitor, onSockeye, openPage } from "./browser.mjs";

async function open() {
  const { stage, urls } = await onSockeye("postgres-chat/index.js");
  const [ada, ben] = [await enter(urls[0], "Ada"), await enter(urls[1], "Ben")];
  return { stage, urls, ada, ben };
}

async function enter(url, name) {
  const page = await openPage(await newVisitor(), url);
  await page.fill("#enter input", name);
  await page.press("#enter input", "Enter");
  await page.waitForFunction("socket?.connected");
  await page.evaluate("window.lost = []; socket.on('disconnect', (reason) => lost.push(reason)); undefined");
  return page;
}

async function say(page, text) {
  await page.fill("#say input", text);
  await page.press("#say input", "Enter");
}

const texts = (page) => page.$$eval("li:not(.waiting) span", (items) => items.map((item) => item.textContent));
const reads = (page, text) =>
  page.waitForFunction((wanted) => [...document.querySelectorAll("li:not(.waiting) span")].some((item) => item.textContent === wanted), text);

async function rows(stage) {
  const client = new pg.Client(stage.databaseUrl);
  await client.connect();
  try {
    return (await client.query("select id::int, author, text from messages order by id")).rows;
  } finally {
    await client.end();
  }
}

/** Each says ten messages; `between` happens in the middle. */
async function talk({ stage, ada, ben }, word, between) {
  const said = { Ada: [], Ben: [] };
  for (let n = 1; n <= 10; n++) {
    for (const [name, page] of [["Ada", ada], ["Ben", ben]]) {
      said[name].push(`${word} ${n} of ${name}`);
      await say(page, said[name].at(-1));
    }
    if (n === 5) await between();
  }
  for (const page of [ada, ben]) for (const text of [...said.Ada, ...said.Ben]) await reads(page, text);
  const kept = (await rows(stage)).filter(({ text }) => text.startsWith(`${word} `));
  // Once each, and in the order in which its author said them.
  for (const name of ["Ada", "Ben"]) assert.deepEqual(kept.filter(({ author }) => author === name).map(({ text }) => text), said[name]);
  assert.equal(kept.length, 20);
  for (const page of [ada, ben]) {
    assert.deepEqual((await texts(page)).filter((text) => text.startsWith(`${word} `)), kept.map(({ text }) => text));
    assert.deepEqual(await page.evaluate("lost"), []);
    assert.equal(await page.locator("li.waiting").count(), 0);
  }
}

test("the chat with a database loses nothing and nobody while its programs are killed", async () => {
  const chat = await open();
  const [one, other] = chat.stage.workers;
  await talk(chat, "first", () => one.kill());
  await talk(chat, "second", () => other.kill());
  await talk(chat, "third", () => Promise.all([one.kill(), other.kill()]));
});

test("messages that are said while the database is away are in it when it is back", async () => {
  const chat = await open();
  await talk(chat, "first", () => chat.stage.database.kill());
});

test("a newcomer sees the last 50 messages, and a message is acknowledged only from the table", async () => {
  const { stage, urls, ada, ben } = await open();
  for (let n = 1; n <= 55; n++) await say(ada, `message ${n}`);
  await reads(ben, "message 55");
  const last = Array.from({ length: 50 }, (_, n) => `message ${n + 6}`);
  const cleo = await enter(urls[1], "Cleo");
  await reads(cleo, "message 55");
  assert.deepEqual(await texts(cleo), last);

  // Somebody holds the table: the message waits, and nobody sees it.
  const holder = new pg.Client(stage.databaseUrl);
  await holder.connect();
  atEnd(() => holder.end().catch(() => {}));
  await holder.query("begin; lock table messages in share mode");
  await say(ada, "is it there?");
  const waits = "select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock' and query like '%insert into messages%'";
  const until = Date.now() + WAIT_MS;
  while ((await holder.query(waits)).rows[0].n === 0) assert.ok(Date.now() < until, `no message waits for the table after ${WAIT_MS} ms`);
  assert.equal(await ada.locator("li.waiting").count(), 1);
  assert.ok(!(await texts(ben)).includes("is it there?"));
  await holder.query("commit");
  for (const page of [ada, ben, cleo]) await reads(page, "is it there?");
});

test("a stranger's nonsense is refused, and is not in the table", async () => {
  const { stage, urls, ada } = await open();
  const page = await openPage(await newVisitor(), urls[0]);
  await page.addScriptTag({ url: "/socket.io/socket.io.js" });
  const connect = (auth) =>
    page.evaluate((given) => new Promise((resolve) => {
      const one = io({ auth: given, forceNew: true });
      one.on("connect", () => resolve("connected"));
      one.on("connect_error", (error) => resolve(error.message));
    }), auth);
  for (const name of [undefined, "", " ", 7, "x".repeat(31), "a\0b", { a: 1 }]) assert.equal(await connect({ name }), "a name has 1 to 30 characters");
  const key = "00000000-0000-4000-8000-000000000000";
  const odd = [null, 7, [], {}, { key }, { key, text: "" }, { key, text: "a\0b" }, { key, text: "x".repeat(1001) }, { key: "'; drop table messages; --", text: "x" }, { key: [key], text: "x" }];
  for (const said of odd) {
    const answer = await ada.evaluate((what) => socket.timeout(30_000).emitWithAck("say", what), said);
    assert.equal(answer.refused, "a message has a key and 1 to 1000 characters", JSON.stringify(said));
  }
  assert.deepEqual(await rows(stage), []);
  await say(ada, "'; drop table messages; -- <i>");
  await reads(ada, "'; drop table messages; -- <i>");
  assert.deepEqual((await rows(stage)).map(({ text }) => text), ["'; drop table messages; -- <i>"]);
});
