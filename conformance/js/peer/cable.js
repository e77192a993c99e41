// A cable between a client and the server that can be cut as networks cut: by a reset, by silence, by a proxy that restarts. Each cut lasts until
// its client has noticed, which a promise says. Between two polls there is nothing to cut, and after a time alone a client that was late would
// have come through: what comes meanwhile is reset.
import net from "node:net";
import { within } from "./patience.js";

export class Cable {
  #server;
  #pairs = new Set();
  #port;
  #target;
  #down = false;
  #isClosed = false;

  static async lay(t, url) {
    const cable = new Cable();
    cable.#target = new URL(url);
    await cable.#listen(0);
    t.after(() => cable.#close());
    return cable;
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  #listen(port) {
    this.#server = net.createServer((client) => this.#join(client));
    return new Promise((resolve) =>
      this.#server.listen(port, "127.0.0.1", () => {
        this.#port = this.#server.address().port;
        resolve();
      }),
    );
  }

  #downUntil(noticed) {
    this.#down = true;
    const up = () => (this.#down = false);
    noticed.then(up, up);
  }

  #join(client) {
    if (this.#down) return client.resetAndDestroy();
    const server = net.connect(Number(this.#target.port), this.#target.hostname);
    const pair = { client, server, silent: false };
    this.#pairs.add(pair);
    const pipe = (from, to) => {
      from.on("data", (bytes) => !pair.silent && to.write(bytes));
      from.on("end", () => !pair.silent && to.end());
      from.on("error", () => !pair.silent && to.destroy());
      from.on("close", () => !pair.silent && (to.destroy(), this.#pairs.delete(pair)));
    };
    pipe(client, server);
    pipe(server, client);
  }

  /** Both ends see a reset. */
  reset(noticed) {
    this.#downUntil(noticed);
    for (const { client, server } of this.#pairs) {
      client.resetAndDestroy();
      server.resetAndDestroy();
    }
  }

  /** The client sees a reset, and the server nothing at all: no packet comes either way. */
  silence(noticed) {
    this.#downUntil(noticed);
    for (const pair of this.#pairs) {
      pair.silent = true;
      pair.client.resetAndDestroy();
    }
  }

  /** All connections end, and for so long at least nobody is there. */
  async restart(ms, noticed) {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const { client, server } of this.#pairs) {
      client.end();
      server.end();
      setTimeout(() => (client.destroy(), server.destroy()), 20);
    }
    await within(closed, "all connections of a cable to end");
    await new Promise((resolve) => setTimeout(resolve, ms));
    // Of a client that never notices, whoever promised it tells.
    await noticed.catch(() => {});
    // A test that failed meanwhile is over: nobody would close it again.
    if (!this.#isClosed) await this.#listen(this.#port);
  }

  #close() {
    this.#isClosed = true;
    this.#server.close();
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
  }
}
