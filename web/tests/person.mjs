// Someone who uses the chat page in a real browser: what they do, and what they see.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell";
const ARGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/**
 * Chromium reports every refused connection as a console error; while the server is down that is
 * the truth. So is the 503 of a server that is stopping.
 */
const NETWORK_DOWN =
  /net::ERR_|WebSocket connection to .* failed|the server responded with a status of 503/;

/** Long, because the machine may be busy with other things. */
const WAIT_MS = 30_000;

/** `without`: arguments that are left out. */
export async function launchBrowser(...without) {
  assert.ok(
    existsSync(CHROMIUM),
    `cannot find ${CHROMIUM}: install it with \`apt-get install -y chromium-headless-shell\``,
  );
  const args = ARGS.filter((arg) => !without.includes(arg));
  return await chromium.launch({ executablePath: CHROMIUM, args });
}

export class Person {
  /** Console errors and uncaught exceptions of the page. */
  errors = [];

  /** A new device (own storage) unless a context is given. */
  static async arrive(
    browser,
    gateway,
    name,
    { context, path = "/", before, asked, ...options } = {},
  ) {
    const person = new Person();
    person.context = context ?? (await browser.newContext({ locale: "en-GB", ...options }));
    person.page = await person.context.newPage();
    person.page.setDefaultTimeout(WAIT_MS);
    person.#collectErrors();
    if (before) await before(person.page);
    await person.page.goto(gateway.url + path);
    if (asked) await asked(person.page);
    if (name !== undefined) await person.giveName(name);
    await person.isOnline();
    return person;
  }

  #collectErrors() {
    this.page.on("pageerror", (error) => this.errors.push(String(error)));
    this.page.on("console", (message) => {
      if (message.type() === "error" && !NETWORK_DOWN.test(message.text()))
        this.errors.push(message.text());
    });
  }

  async giveName(name) {
    await this.page.fill("#name-input", name);
    await this.page.press("#name-input", "Enter");
  }

  async isOnline() {
    await this.page.waitForSelector('#link-state[data-phase="online"]', { state: "attached" });
  }

  /**
   * A connection that breaks while it moves to WebSocket is missed by the stock client only when no ping
   * comes, after 35 s: who kills the gateway waits for this first.
   */
  async isUpgraded() {
    await this.seesText("#link-state", /Connected . websocket/);
  }

  async isOffline() {
    await this.page.waitForSelector('#link-state[data-phase="waiting"]', { state: "attached" });
  }

  async say(text) {
    await this.page.fill("#draft", text);
    await this.page.press("#draft", "Enter");
  }

  async joinRoom(room) {
    await this.page.click("#add-room");
    await this.page.fill("#room-input", room);
    await this.page.press("#room-input", "Enter");
    await this.page.waitForFunction(
      (name) => document.querySelector("#room-name").textContent === name,
      room,
    );
  }

  async openRoom(room) {
    await this.page.click(`#rooms [data-room="${room}"]`);
  }

  /** Waits until the open room shows the text; returns how often it does. */
  async sees(text) {
    await this.page.waitForFunction(
      (wanted) =>
        [...document.querySelectorAll(".message .content")].some(
          (node) => node.textContent === wanted,
        ),
      text,
    );
    return (await this.messages()).filter((message) => message.text === text).length;
  }

  /** Waits until the message with this text is in the state. */
  async seesState(text, state) {
    await this.page.waitForFunction(
      ([wanted, inState]) =>
        [...document.querySelectorAll(`.message[data-state="${inState}"] .content`)].some(
          (node) => node.textContent === wanted,
        ),
      [text, state],
    );
  }

  async messages() {
    return await this.page.$$eval(".message", (rows) =>
      rows.map((row) => ({
        text: row.querySelector(".content").textContent,
        state: row.dataset.state,
        id: row.dataset.id,
        own: row.classList.contains("own"),
        problem: row.querySelector(".problem")?.firstChild.textContent ?? "",
      })),
    );
  }

  async rooms() {
    return await this.page.$$eval("#rooms [data-room]", (items) =>
      items.map((item) => item.dataset.room),
    );
  }

  async seesPresence(count) {
    await this.page.waitForFunction(
      (text) =>
        document.querySelector("#presence-count").textContent === text &&
        !document.querySelector("#presence").hidden,
      `${count} online`,
    );
  }

  async seesText(selector, pattern) {
    await this.page.waitForFunction(
      ([where, source]) =>
        new RegExp(source).test(document.querySelector(where)?.textContent ?? ""),
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
