// The way to gateways that know no other: gRPC. Its library is loaded when it is needed.
import type * as Grpc from "@grpc/grpc-js";
import type { FromWorker, ToWorker } from "./messages.js";
import { MESSAGE_BYTES_MAX, addressOf } from "./transport.js";
import type { Ends, Goal, Transport } from "./transport.js";
import { wire } from "./wire.js";

const METHOD = "/sockeye.worker.v1.Workers/Attach";

export class GrpcTransport implements Transport {
  readonly #client: Grpc.Client;
  readonly #stream: Grpc.ClientDuplexStream<FromWorker, ToWorker>;
  #ended = false;

  constructor(goal: Goal, ends: Ends) {
    const grpc = require("@grpc/grpc-js") as typeof Grpc;
    const { secure, address } = addressOf(goal);
    this.#client = new grpc.Client(address, credentials(grpc, secure, goal), {
      "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
      "grpc.initial_reconnect_backoff_ms": 20,
      "grpc.max_reconnect_backoff_ms": 500,
      "grpc.keepalive_time_ms": 5_000,
      "grpc.keepalive_timeout_ms": 3_000,
    });
    const metadata = new grpc.Metadata();
    metadata.set("authorization", `Bearer ${goal.key}`);
    this.#stream = this.#client.makeBidiStreamRequest(METHOD, wire.write, (bytes) => wire.read(bytes), metadata);
    const ended = (error?: Grpc.ServiceError) => {
      if (this.#ended) return;
      this.#close();
      ends.ended(error && { code: error.code, details: error.details });
    };
    this.#stream.on("data", (message: ToWorker) => this.#ended || ends.message(message));
    this.#stream.on("error", ended);
    this.#stream.on("end", () => ended());
  }

  write(message: FromWorker): void {
    this.#stream.write(message);
  }

  end(): void {
    this.#stream.end();
    this.#close();
  }

  #close(): void {
    this.#ended = true;
    this.#client.close();
  }
}

function credentials(grpc: typeof Grpc, secure: boolean, { tls = {} }: Goal): Grpc.ChannelCredentials {
  const bytes = (value?: Buffer | string) => (typeof value === "string" ? Buffer.from(value) : (value ?? null));
  return secure ? grpc.credentials.createSsl(bytes(tls.ca), bytes(tls.key), bytes(tls.cert)) : grpc.credentials.createInsecure();
}
