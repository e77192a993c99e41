import { AckPolicy, connect, headers } from "nats";

const nats = await connect({ servers: process.argv[2], maxReconnectAttempts: -1 });
const streams = await nats.jetstreamManager();
await streams.consumers.add("EVENTS", { durable_name: "answers", ack_policy: AckPolicy.Explicit });

const js = nats.jetstream();
const events = await (await js.consumers.get("EVENTS", "answers")).consume();
for await (const event of events) {
  if (event.headers.get("X-Event") === "Message") {
    const [name, ...args] = event.json();
    const answer = headers();
    answer.set("X-Operator", "unicast");
    answer.set("X-ID", event.headers.get("X-ID"));
    answer.set("Nats-Msg-Id", `answer-${event.seq}`); // once, if it is sent again
    await js.publish("commands", JSON.stringify(["answer", name, ...args]), { headers: answer });
  }
  event.ack();
}
