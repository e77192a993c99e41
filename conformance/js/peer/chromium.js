// WebTransport for Node, which has none: sessions and their streams are those of a Chromium without a window.
import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell";
const ARGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Makes the global `WebTransport` that stock clients look for. `cert`: PEM file of the server's certificate. Returns what ends the browser. */
export async function lendWebTransport(url, cert) {
  if (!existsSync(CHROMIUM)) throw new Error(`cannot find ${CHROMIUM}: install it with \`apt-get install -y chromium-headless-shell\`, or set CHROMIUM`);
  const { fingerprint256 } = new X509Certificate(readFileSync(cert));
  const hash = fingerprint256.split(":").map((byte) => Number.parseInt(byte, 16));
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGS });
  const page = await browser.newPage({ bypassCSP: true, ignoreHTTPSErrors: true });
  const sessions = new Map();
  await page.exposeFunction("tell", (id, what, value) => sessions.get(id)?.hear(what, value));
  // Only pages that came by TLS may use WebTransport. Any answer will do.
  await page.goto(`${url}/socket.io/?EIO=4&transport=none`);
  await page.evaluate(openDesk);
  const ask = (method, ...args) => page.evaluate(([method, args]) => globalThis.desk[method](...args), [method, args]);
  globalThis.WebTransport = class extends Session {
    constructor(url) {
      super(url, hash, ask);
      sessions.set(this.id, this);
      const forget = () => sessions.delete(this.id);
      this.closed.then(forget, forget);
    }
  };
  return () => browser.close();
}

let last = 0;

class Session {
  id = ++last;
  #ask;
  #settle = {};
  #incoming;
  #outgoing = [];

  constructor(url, hash, ask) {
    this.#ask = ask;
    // Stock clients hear of each failure by `closed`, and do not look at others: browsers ignore these, Node would end.
    this.ready = new Promise((resolve) => ask("open", this.id, url, hash).then(resolve, () => {}));
    this.closed = new Promise((resolve, reject) => Object.assign(this.#settle, { closed: resolve, failed: reject }));
    this.closed.catch(() => {});
  }

  /** What the browser says of it, in its order. */
  hear(what, value) {
    if (what === "chunk") this.#incoming?.enqueue(Buffer.from(value, "base64"));
    else if (what === "end") this.#incoming?.close();
    else if (what === "broken") this.#incoming?.error(new Error(value));
    else if (what === "failed") this.#settle.failed(new Error(value));
    else this.#settle.closed(value);
  }

  async createBidirectionalStream() {
    const readable = new ReadableStream({ start: (controller) => (this.#incoming = controller) });
    const writable = new WritableStream({
      write: (chunk) => void this.#say(chunk),
      close: () => void this.#ask("finish", this.id).catch(() => {}),
    });
    await new Promise((resolve) => this.#ask("stream", this.id).then(resolve, () => {}));
    return { readable, writable };
  }

  /** All that has come meanwhile goes in one piece: two calls at once may change places. */
  async #say(chunk) {
    this.#outgoing.push(Buffer.from(chunk));
    if (this.#outgoing.length > 1) return;
    while (this.#outgoing.length > 0) {
      const count = this.#outgoing.length;
      await this.#ask("write", this.id, Buffer.concat(this.#outgoing).toString("base64")).catch(() => {});
      this.#outgoing.splice(0, count);
    }
  }

  close(info) {
    this.#ask("close", this.id, info).catch(() => {});
  }
}

/** In the page. */
function openDesk() {
  const sessions = new Map();
  const bytesOf = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const textOf = (bytes) => {
    let text = "";
    for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
    return btoa(text);
  };
  const tell = (id, what, value) => void globalThis.tell(id, what, value);
  // Chunks are told as they come: those that wait for their turn would be lost with the session.
  const pump = async (id, reader) => {
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return tell(id, "end");
        tell(id, "chunk", textOf(value));
      }
    } catch (error) {
      tell(id, "broken", String(error.message));
    }
  };
  globalThis.desk = {
    async open(id, url, hash) {
      const certificate = { algorithm: "sha-256", value: Uint8Array.from(hash) };
      const transport = new globalThis.WebTransport(url, { serverCertificateHashes: [certificate] });
      sessions.set(id, { transport });
      const ended = (what, value) => sessions.delete(id) && tell(id, what, value);
      transport.closed.then(
        ({ closeCode, reason }) => ended("closed", { closeCode, reason }),
        (error) => ended("failed", String(error.message)),
      );
      await transport.ready;
    },
    async stream(id) {
      const session = sessions.get(id);
      const { readable, writable } = await session.transport.createBidirectionalStream();
      session.writer = writable.getWriter();
      pump(id, readable.getReader());
    },
    write: (id, text) => sessions.get(id).writer.write(bytesOf(text)),
    finish: (id) => sessions.get(id)?.writer.close(),
    close: (id, info) => sessions.get(id)?.transport.close(info),
  };
}
