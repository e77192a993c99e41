// The stream to one gateway: numbers, what is kept until the gateway has it, and coming back after a cut.
import { existsSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const FOLDERS = [here("../proto"), here("../../../proto")];
const FILE = "sockeye/worker/v1/worker.proto";
const SIGN_OF_LIFE_MS = 1_000;
const RETRY_MS = [20, 50, 100, 200, 500, 1_000];

function client(address) {
  const folder = FOLDERS.find((folder) => existsSync(`${folder}/${FILE}`));
  const options = { includeDirs: [folder], longs: Number, keepCase: true, defaults: true, oneofs: true };
  const { sockeye } = grpc.loadPackageDefinition(loadSync(FILE, options));
  const limits = { "grpc.max_receive_message_length": 64 << 20, "grpc.initial_reconnect_backoff_ms": 20, "grpc.max_reconnect_backoff_ms": 500 };
  return new sockeye.worker.v1.Workers(address, grpc.credentials.createInsecure(), limits);
}

export class Link {
  #client;
  #key;
  #hello;
  #handlers;
  #stream = null;
  #welcomed = false;
  /** The gateway welcomed this process before: what it says `resumed` about. */
  #known = false;
  #received = 0;
  #commands = 0;
  /** Commands that the gateway may not have; the first has number `#commands - #kept.length + 1`. */
  #kept = [];
  /** How many of them were sent on this stream. */
  #sent = 0;
  #scheduled = false;
  #leaving = false;
  #closed = false;
  #failures = 0;
  #timer;

  /** `handlers`: item(item), lost() when the gateway gave this worker's sockets to others, ready(), failed(error), ended(). */
  constructor({ gateway, key, backend, weight = 1 }, handlers) {
    this.#client = client(gateway);
    this.#key = key;
    this.#hello = { backend, weight, instance: randomUUID() };
    this.#handlers = handlers;
    this.#timer = setInterval(() => this.#flush(true), SIGN_OF_LIFE_MS);
    this.#open();
  }

  /** Returns the command's number; nothing when the link has ended. */
  command(what) {
    if (this.#closed) return undefined;
    this.#kept.push(what);
    this.#commands += 1;
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(() => this.#flush(false));
    }
    return this.#commands;
  }

  /** Finishes what it has and hands its sockets over; `ended` follows. */
  leave() {
    this.#leaving = true;
    this.#flush(true);
  }

  #open() {
    const metadata = new grpc.Metadata();
    metadata.set("authorization", `Bearer ${this.#key}`);
    const stream = this.#client.Attach(metadata);
    this.#stream = stream;
    this.#welcomed = false;
    stream.on("data", (message) => stream === this.#stream && this.#take(message));
    stream.on("error", (error) => this.#broken(stream, error));
    stream.on("end", () => this.#broken(stream));
    stream.write({ hello: { ...this.#hello, received: this.#received } });
  }

  #broken(stream, error) {
    if (stream !== this.#stream || this.#closed) return;
    this.#stream = null;
    const refused = [grpc.status.UNAUTHENTICATED, grpc.status.INVALID_ARGUMENT].includes(error?.code);
    if (refused) {
      this.#close();
      return this.#handlers.failed(error);
    }
    const wait = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)];
    setTimeout(() => this.#closed || this.#open(), wait);
  }

  #close() {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#stream?.end();
    this.#client.close();
  }

  #take(message) {
    if (message.welcome) this.#welcome(message.welcome);
    this.#confirm(message.commands);
    message.items.forEach((item) => {
      this.#received += 1;
      try {
        this.#handlers.item(item);
      } catch (error) {
        // What a handler throws is the program's business, not the stream's.
        process.nextTick(() => {
          throw error;
        });
      }
    });
    if (message.items.length > 0) this.#flush(true);
    if (message.goodbye) {
      this.#close();
      this.#handlers.ended();
    }
  }

  #welcome({ resumed, commands }) {
    this.#failures = 0;
    this.#welcomed = true;
    // What was said before the first welcome is not lost: it goes out now.
    if (!resumed && this.#known) {
      this.#received = 0;
      this.#commands = 0;
      this.#kept = [];
      this.#handlers.lost();
    }
    this.#known = true;
    this.#confirm(commands);
    // What the gateway has not got goes again, under the same numbers.
    this.#sent = 0;
    this.#handlers.ready();
    this.#flush(true);
  }

  #confirm(commands) {
    const first = this.#commands - this.#kept.length + 1;
    const known = Math.max(0, commands - first + 1);
    this.#kept.splice(0, known);
    this.#sent = Math.max(0, this.#sent - known);
  }

  /** Sends what came of the items handled so far, together with the number of the last of them. */
  #flush(always) {
    this.#scheduled = false;
    if (!this.#stream || !this.#welcomed || this.#closed) return;
    const commands = this.#kept.slice(this.#sent);
    if (commands.length === 0 && !always) return;
    const first = this.#commands - commands.length + 1;
    this.#sent = this.#kept.length;
    this.#stream.write({ handled: this.#received, first, commands, leaving: this.#leaving });
  }
}
