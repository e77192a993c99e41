// What a program asks for and never gets from its gateway: one warning for each.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, test } from "node:test";
import { stage, until } from "./stage.mjs";

const { Hints } = createRequire(import.meta.url)("../dist/hints.js");
const RECOVERY = '[namespaces."/".recovery]\nlevel = "node"\n';
const OTHER = '[namespaces."/chat"]\nclient_joins = true\n';

const open = [];
after(() => Promise.all(open.map((gateway) => gateway.close())));

/** What is warned of until the last word of `say` is there; a word of the test's own comes behind all others. */
async function warnings(say) {
  const heard = [];
  const hear = ({ name, message }) => name === "SockeyeWarning" && heard.push(message);
  process.on("warning", hear);
  await say();
  process.emitWarning("the end", "SockeyeWarning");
  await until(() => heard.at(-1) === "the end");
  process.off("warning", hear);
  return heard.slice(0, -1);
}

async function served(namespaces, options, prepare = () => {}) {
  const gateway = await stage("", namespaces);
  open.push(gateway);
  return gateway.server(options, prepare);
}

test("a namespace that the gateway gives to nobody, or to others, was waited for in silence", async () => {
  const told = await warnings(async () => {
    const io = await served(OTHER, {}, (io) => {
      io.on("connection", () => {});
      io.of("/chat").on("connection", () => {});
      io.of("/game");
      io.of(/^\/dish-/);
    });
    // Once for each.
    io.of("/chat");
    io.of("/dish-1");
  });
  assert.deepEqual(told, ['no client comes to namespace /chat: the gateway does not give it to backend "kitchen"; set backend = "kitchen" in [namespaces."/chat"] there']);
});

test("a namespace that is named later is told as well", async () => {
  const io = await served(OTHER, {});
  assert.equal((await warnings(() => io.of("chat"))).length, 1);
  assert.deepEqual(await warnings(() => io.of("/later")), []);
});

test("connectionStateRecovery did nothing in silence where the gateway has no recovery", async () => {
  const told = await warnings(() => served("", { connectionStateRecovery: {} }));
  assert.equal(told.length, 1);
  assert.match(told[0], /^`connectionStateRecovery` brings no client back: .*; set level = "node" in \[namespaces."\/".recovery\] there, or leave it out$/);
  assert.deepEqual(await warnings(() => served(RECOVERY, { connectionStateRecovery: {} })), []);
  assert.deepEqual(await warnings(() => served("", {})), []);
});

const manners = (namespaces) => ({ namespaces });

test("`/` is told if it has handlers, an older gateway tells nothing, and nobody fills the log", async () => {
  const hints = new Hints("app");
  hints.wantsRecovery = () => true;
  hints.named("/game");
  assert.deepEqual(await warnings(() => hints.hear(manners(null))), []);
  const game = manners({ names: ["/game"], all_but: false, recovers: true });
  assert.deepEqual(await warnings(() => hints.hear(game)), []);
  hints.handlesRoot = () => true;
  const told = await warnings(() => [1, 2].forEach(() => hints.hear(game)));
  assert.deepEqual(told, ['no client comes to namespace /: the gateway does not give it to backend "app"; set backend = "app" in [namespaces."/"] there']);
  assert.equal((await warnings(() => Array.from({ length: 50 }, (_, n) => hints.named(`/${n}`)))).length, 9);
});
