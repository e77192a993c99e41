// The front page: its programs do what it says, as they stand there, with its configuration. SOCKEYE_BIN names the binary.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { io } from "socket.io-client";
import { Gateway } from "../../../web/tests/gateway.mjs";

const page = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");
const blocks = (language) =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "gs"))].map(([, block]) => block);

/** Runs a program of the page `times` times beside each other, until one of them has printed. */
async function printed(program, toml, times) {
  const file = join(mkdtempSync(join(tmpdir(), "sockeye-readme-")), "sockeye.toml");
  writeFileSync(file, toml);
  const gateway = await Gateway.start("--config", file);
  const [sockets, answers] = [[], []];
  const connect = (url) => {
    const socket = io(url, { forceNew: true });
    const ask = socket.emitWithAck.bind(socket);
    socket.emitWithAck = (...words) => {
      answers.push(ask(...words));
      return answers.at(-1);
    };
    sockets.push(socket);
    return socket;
  };
  const body = program.replace(/^import .*$/m, "").replaceAll("http://localhost:3000", gateway.url);
  try {
    return await new Promise((resolve) => {
      const run = new Function("io", "console", body);
      for (let each = 0; each < times; each += 1)
        run(connect, { log: (...words) => resolve(words) });
    });
  } finally {
    // An answer may be followed by the next question, which stands in the list before this goes on.
    for (let each = 0; each < answers.length; each += 1) await answers[each];
    for (const socket of sockets) socket.close();
    await gateway.kill();
  }
}

test("the first program says hello in the kitchen", async () => {
  const [chat] = blocks("js");
  const [sender, content] = await printed(chat, "", 2);
  assert.equal(content, "hello");
  assert.ok(sender, "nobody said it");
});

test("your own events reach the others at the table", async () => {
  const [, game] = blocks("js");
  assert.deepEqual(await printed(game, blocks("toml")[0], 2), ["somebody moved to", 1, 2]);
});
