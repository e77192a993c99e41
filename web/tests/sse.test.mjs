// The browser's own EventSource: it hears what is said in a room, and comes back to what it missed.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { io } from "socket.io-client";
import { Gateway } from "./gateway.mjs";
import { launchBrowser } from "./person.mjs";

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

test("a page hears a room by EventSource, and all of it once when it comes back", async (t) => {
  const page = await browser.newPage();
  await page.goto(`${gateway.url}/health`);
  const socket = io(gateway.url, { transports: ["websocket"] });
  t.after(() => socket.close());
  await socket.emitWithAck("join", "sse");
  // The ack says that the message was accepted; the speaker's own copy, that the room has kept it.
  const say = async (content) => {
    const kept = new Promise((resolve) => {
      socket.on("chat-message", (message) => message.content === content && resolve());
    });
    await socket.emitWithAck("chat-message", { content, room: "sse" });
    await kept;
  };
  const listen = (last) =>
    page.evaluate(async (last) => {
      window.heard = [];
      window.stream = new EventSource(`/sse?room=sse&lastEventId=${encodeURIComponent(last)}`);
      window.stream.onmessage = (message) => {
        window.last = message.lastEventId;
        window.heard.push(JSON.parse(message.data));
      };
      await new Promise((opened) => (window.stream.onopen = opened));
    }, last);
  const hears = async (content) => {
    const has = (content) =>
      window.heard.some((message) => JSON.stringify(message).includes(`"${content}"`));
    await page.waitForFunction(has, content);
  };
  await say("before");
  await listen("");
  await hears("before");
  await say("live");
  await hears("live");
  const last = await page.evaluate(() => {
    window.stream.close();
    return window.last;
  });
  assert.match(last, /^[0-9a-f]{1,16}:[0-9a-f]{1,16}=2$/);
  await say("missed");
  await listen(last);
  await hears("missed");
  const room = await page.evaluate(() =>
    window.heard.find((message) => message.type === "history"),
  );
  const contents = room.payload.messages.map(
    (message) => message.args?.[0].content ?? message.content,
  );
  assert.deepEqual([contents, room.payload.resumed], [["missed"], true]);

  // A stream that the server ends is opened again by the browser itself.
  await gateway.stop();
  await page.waitForFunction(() =>
    window.heard.some((message) => message.type === "SERVER_SHUTDOWN"),
  );
  await gateway.restart();
  await page.waitForFunction(() => window.heard.some(({ payload }) => payload?.resumed === false));
  await page.close();
});
