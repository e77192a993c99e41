import { Kafka, logLevel } from "kafkajs";

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.ERROR });
const producer = kafka.producer({ idempotent: true });
const consumer = kafka.consumer({ groupId: "answers" });

await producer.connect();
await consumer.connect();
await consumer.subscribe({ topics: ["events"], fromBeginning: true });
await consumer.run({
  eachMessage: async ({ message }) => {
    const { "X-ID": id, "X-Event": what } = message.headers;
    if (String(what) !== "Message") return;
    const [name, ...args] = JSON.parse(message.value);
    await producer.send({
      topic: "commands",
      messages: [{
        key: message.key, // the same order
        headers: { "X-Operator": "unicast", "X-ID": id },
        value: JSON.stringify(["answer", name, ...args]),
      }],
    });
  },
});
