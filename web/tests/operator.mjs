// Someone who looks at a gateway with the console in a real browser; and the gateway that has one.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { io } from "socket.io-client";
import { executable, Gateway } from "./gateway.mjs";

/** Long, because the machine may be busy with other things. */
const WAIT_MS = 30_000;

/**
 * Chromium reports each refused call as an error. The page asks whether its cookie is still good,
 * and whether a room has presence.
 */
const REFUSED = /the server responded with a status of (401|403)/;
const NOT_THERE = /the server responded with a status of 404/;

function isExpected(text, url) {
  return REFUSED.test(text) || (NOT_THERE.test(text) && url.includes("/v1/presence"));
}

/** All pages that need no name. */
export const PAGES = [
  "overview",
  "nodes",
  "rooms",
  "sessions",
  "ends",
  "backends",
  "trace",
  "try",
  "config",
  "audit",
];

/** A gateway whose clients need tokens, with API keys: `ops` may do everything, `look` may read. */
export class Watched {
  static async start(config = "") {
    const watched = new Watched();
    watched.folder = mkdtempSync(join(tmpdir(), "sockeye-console-"));
    watched.run("init", "--chat");
    watched.keys = {
      ops: watched.#makeKey("ops"),
      look: watched.#makeKey("look", "--allow", "read"),
    };
    const entries = Object.values(watched.keys).map(({ entry }) => entry);
    appendFileSync(
      join(watched.folder, "sockeye.toml"),
      `\n[admin]\napi_keys = [${entries.join(", ")}]\n${config}`,
    );
    watched.gateway = await Gateway.start("--config", join(watched.folder, "sockeye.toml"));
    watched.url = `http://127.0.0.1:${watched.gateway.adminPort}`;
    watched.clients = [];
    return watched;
  }

  run(...args) {
    const options = { cwd: this.folder, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] };
    return execFileSync(executable(), args, options);
  }

  #makeKey(...args) {
    const [, key, entry] = /key\s+(\S+)\s+entry\s+(\S+)/.exec(this.run("api-key", ...args));
    return { key, entry };
  }

  /** A client of the gateway, in these rooms. */
  async client(user, rooms = []) {
    const token = this.run("token", "--uid", user).trim();
    const socket = io(this.gateway.url, { auth: { token }, transports: ["websocket"] });
    this.clients.push(socket);
    await new Promise((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("connect_error", reject);
    });
    for (const room of rooms) {
      const answer = await socket.timeout(WAIT_MS).emitWithAck("join", room);
      assert.ok(Array.isArray(answer), `cannot join ${room}: ${JSON.stringify(answer)}`);
    }
    return socket;
  }

  async stop() {
    for (const socket of this.clients) socket.disconnect();
    await this.gateway.stop();
  }
}

export class Operator {
  /** Errors that the browser reports, but for refused calls. */
  errors = [];

  static async come(browser, watched, options = {}) {
    const operator = new Operator();
    operator.watched = watched;
    operator.context = await browser.newContext({ locale: "en-GB", ...options });
    await operator.#openPage();
    await operator.page.waitForSelector("#login:not([hidden])");
    return operator;
  }

  /** The same browser, with the same cookies. */
  async otherTab() {
    const operator = new Operator();
    operator.watched = this.watched;
    operator.context = this.context;
    await operator.#openPage();
    return operator;
  }

  async #openPage() {
    this.page = await this.context.newPage();
    this.page.setDefaultTimeout(WAIT_MS);
    this.page.on("pageerror", (error) => this.errors.push(String(error)));
    this.page.on("console", (message) => {
      if (message.type() !== "error") return;
      if (!isExpected(message.text(), message.location().url)) this.errors.push(message.text());
    });
    await this.page.goto(`${this.watched.url}/console/`);
  }

  /** Comes with a key, and is let in. */
  static async enter(browser, watched, name = "ops", options = {}) {
    const operator = await Operator.come(browser, watched, options);
    await operator.giveKey(watched.keys[name].key);
    await operator.isInside();
    return operator;
  }

  async giveKey(key) {
    await this.page.fill("#key", key);
    await this.page.press("#key", "Enter");
  }

  async isInside() {
    await this.page.waitForSelector("#main h1");
    await this.page.waitForFunction(() => document.querySelector("#health").dataset.mood === "ok");
  }

  /** Opens a page and waits until its figures are there. */
  async open(place) {
    await this.page.evaluate((hash) => {
      location.hash = "#/";
      location.hash = `#/${hash}`;
    }, place);
    await this.page.waitForSelector('#main[aria-busy="false"] h1');
  }

  async sees(selector, pattern) {
    await this.page.waitForFunction(
      ([where, source]) =>
        [...document.querySelectorAll(where)].some((node) =>
          new RegExp(source).test(node.textContent),
        ),
      [selector, pattern.source],
    );
  }

  assertNoErrors() {
    assert.deepEqual(this.errors, []);
  }

  async leave() {
    await this.context.close();
  }
}
