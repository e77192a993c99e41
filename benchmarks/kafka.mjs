// The bridge to Kafka beside a Socket.IO server on Node with kafkajs: events of clients out, commands of programs in, all in one run, in
// turns, with the broker on the same machine. First `npm ci` in benchmarks/node-socketio and conformance/kafka, then
// `node benchmarks/kafka.mjs --sockeye target/release/sockeye --java target/tools/bin/kafka-java`.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import net from "node:net";
import { tmpdir } from "node:os";
import { join, resolve as absolute } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { freePort } from "../conformance/ports.mjs";

const { Kafka, CompressionTypes, Partitioners, logLevel } = createRequire(new URL("../conformance/kafka/", import.meta.url))("kafkajs");
const PARTITIONS = 4;
const CLIENTS = 8;
const AT_ONCE = 500;
const LOOK_MS = 20;
// 128 bytes with the name around it.
const EVENT = JSON.stringify(["order", "x".repeat(128 - '["order",""]'.length)]);
const client = (broker) => new Kafka({ brokers: [broker], logLevel: logLevel.ERROR });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- the server on Node ----------------------------------------------------------------------------------------------------------

/** Writes what clients say with the headers of the bridge, as many records at once as have come; reads commands in batches. */
async function peer(broker, group) {
  const { createServer } = await import("node:http");
  const { Server } = createRequire(new URL("node-socketio/", import.meta.url))("socket.io");
  const server = createServer();
  const io = new Server(server, { transports: ["websocket"], perMessageDeflate: false, serveClient: false });
  const kafka = client(broker);
  let waiting = [];
  let handed = 0;
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner: Partitioners.DefaultPartitioner });
  const write = async () => {
    while (waiting.length > 0) {
      const messages = waiting.splice(0, 2000);
      await producer.send({ topic: "events", acks: -1, compression: CompressionTypes.None, messages });
    }
    writing = undefined;
  };
  let writing;
  io.on("connection", (socket) => {
    let sequence = 0;
    socket.on("order", (...args) => {
      sequence += 1;
      const headers = {
        "X-ID": socket.id, "X-Event": "Message", "X-Auth-Type": "none", "X-Sockeye-Namespace": "/", "X-Sockeye-Name": "order",
        "X-Sockeye-Sequence": `${sequence}`, "X-Sockeye-Encoding": "json",
      };
      waiting.push({ key: socket.id, headers, value: JSON.stringify(["order", ...args]) });
      writing ??= new Promise(setImmediate).then(write);
    });
  });
  const command = (message) => {
    const { "X-Operator": operator, "X-Uid": user } = message.headers;
    const [name, ...args] = JSON.parse(message.value);
    if (String(operator) === "user") io.to(`user:${user}`).emit(name, ...args);
    handed += 1;
  };
  if (group) {
    const consumer = kafka.consumer({ groupId: group });
    await consumer.connect();
    await consumer.subscribe({ topics: ["commands"], fromBeginning: true });
    await consumer.run({ eachBatch: async ({ batch }) => batch.messages.forEach(command) });
  } else {
    await producer.connect();
  }
  process.on("message", () => process.send({ handed }));
  server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
}

// ---- processes -------------------------------------------------------------------------------------------------------------------

function run(program, args, more) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe", "ipc"], ...more });
  child.said = "";
  for (const pipe of [child.stdout, child.stderr]) pipe.on("data", (text) => (child.said = (child.said + text).slice(-2000)));
  return child;
}

async function until(child, what, ask) {
  const late = performance.now() + 120_000;
  while (performance.now() < late) {
    if (child.exitCode !== null) throw new Error(`${child.spawnfile} ended with ${child.exitCode}: ${child.said}`);
    const answer = await ask().catch(() => undefined);
    if (answer) return answer;
    await sleep(LOOK_MS);
  }
  throw new Error(`waited in vain for ${what}: ${child.said}`);
}

/** Microseconds of processor that a process has used. */
async function used(child) {
  const fields = (await readFile(`/proc/${child.pid}/stat`, "utf8")).split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

async function broker(java, folder) {
  const [port, controller] = [await freePort(), await freePort()];
  const lines = [
    "process.roles=broker,controller", "node.id=1", `listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}`,
    `advertised.listeners=PLAINTEXT://127.0.0.1:${port}`, "controller.listener.names=CONTROLLER",
    `controller.quorum.voters=1@127.0.0.1:${controller}`, `log.dirs=${join(folder, "data")}`, "auto.create.topics.enable=false",
    "offsets.topic.num.partitions=1", "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0",
  ];
  const file = join(folder, "server.properties");
  await writeFile(file, lines.join("\n"));
  const env = { ...process.env, JDK_JAVA_OPTIONS: "-Xms256m -Xmx512m -XX:+UseSerialGC" };
  const format = run(java, ["kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", file], { env });
  await new Promise((resolve) => format.on("exit", resolve));
  const child = run(java, ["kafka.Kafka", file], { env });
  const addr = `127.0.0.1:${port}`;
  const admin = client(addr).admin();
  await until(child, "Kafka", () => admin.connect().then(() => true));
  const topics = ["events", "commands", "dead"].map((topic) => ({ topic, numPartitions: PARTITIONS, replicationFactor: 1 }));
  await until(child, "topics", () => admin.createTopics({ topics, waitForLeaders: true }));
  return { child, addr, admin };
}

async function sockeye(program, kafka, group, folder) {
  const [port, admin] = [await freePort(), await freePort()];
  const lines = [
    "[server]", "shards = 1", "[auth]", "required = false", "[kafka]", `brokers = ["${kafka.addr}"]`,
    "[kafka.out]", 'topic = "events"', 'key = "socket"', 'waiting_max = "1GiB"',
    ...(group ? ["[kafka.in.programs]", 'topics = ["commands"]', `group = "${group}"`, 'operators = ["user"]', 'dead_letters = "dead"'] : []),
    '[namespaces."/".events.order]', 'action = "kafka"',
  ];
  const file = join(folder, "sockeye.toml");
  await writeFile(file, lines.join("\n"));
  const child = run(program, ["--config", file, "--listen", `127.0.0.1:${port}`, "--admin", `127.0.0.1:${admin}`, "--profile", "socket.io"]);
  const metrics = async () => (await fetch(`http://127.0.0.1:${admin}/metrics`)).text();
  await until(child, "sockeye", metrics);
  const count = (text) => Number(/^sockeye_kafka_commands_total\{outcome="handed"\} (\d+)/m.exec(text)?.[1] ?? 0);
  return { child, port, handed: async () => count(await metrics()) };
}

async function node(_program, kafka, group) {
  const child = run(process.execPath, [fileURLToPath(import.meta.url), "peer", kafka.addr, group ?? ""]);
  const told = () => new Promise((resolve) => child.once("message", resolve));
  const listening = told();
  const { port } = await until(child, "the server on Node", () => Promise.race([listening, sleep(LOOK_MS)]));
  const handed = () => {
    const answer = told();
    child.send({});
    return answer.then((answer) => answer.handed);
  };
  return { child, port, handed };
}

// ---- load ------------------------------------------------------------------------------------------------------------------------

/** A frame of a client, whose mask is zero. */
function frame(text) {
  const body = Buffer.from(text);
  const head = body.length < 126 ? Buffer.from([0x81, 0x80 | body.length, 0, 0, 0, 0]) : Buffer.from([0x81, 0xfe, body.length >> 8, body.length & 255, 0, 0, 0, 0]);
  return Buffer.concat([head, body]);
}

function connect(port) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1").on("error", reject);
    socket.write(
      "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    socket.on("data", (data) => {
      const text = data.toString("latin1");
      if (text.includes('0{"sid"') && !text.includes('40{"sid"')) socket.write(frame("40"));
      if (text.includes('40{"sid"')) resolve(socket);
      // A ping.
      if (text.includes("\x81\x012")) socket.write(frame("3"));
    });
  });
}

async function out(make, program, kafka, folder, count) {
  const server = await make(program, kafka, undefined, folder);
  try {
    const written = async () => {
      const offsets = await kafka.admin.fetchTopicOffsets("events");
      return offsets.reduce((sum, { high }) => sum + Number(high), 0);
    };
    const sockets = await Promise.all(Array.from({ length: CLIENTS }, () => connect(server.port)));
    const batch = Buffer.concat(Array.from({ length: AT_ONCE }, () => frame(`42${EVENT}`)));
    const before = await written();
    const [from, began] = [await used(server.child), performance.now()];
    const say = async (socket) => {
      for (let n = 0; n < count / CLIENTS / AT_ONCE; n++) {
        if (!socket.write(batch)) await new Promise((resolve) => socket.once("drain", resolve));
      }
    };
    await Promise.all(sockets.map(say));
    await until(server.child, "all records", async () => (await written()) - before >= count);
    const seconds = (performance.now() - began) / 1000;
    const more = (await written()) - before - count;
    if (more > 0) throw new Error(`${more} records too many`);
    sockets.forEach((socket) => socket.destroy());
    return { rate: count / seconds, cpu: ((await used(server.child)) - from) / count };
  } finally {
    server.child.kill("SIGKILL");
  }
}

/** From the first command that is seen to be carried out. */
async function within(make, program, kafka, folder, count, group) {
  const server = await make(program, kafka, group, folder);
  try {
    const first = await until(server.child, "the first command", () => server.handed());
    const [from, began] = [await used(server.child), performance.now()];
    await until(server.child, "all commands", async () => (await server.handed()) >= count);
    const seconds = (performance.now() - began) / 1000;
    const [read, cpu] = [count - first, (await used(server.child)) - from];
    const all = await server.handed();
    if (all !== count) throw new Error(`${all} commands of ${count}`);
    return { rate: read / seconds, cpu: cpu / read };
  } finally {
    server.child.kill("SIGKILL");
  }
}

async function fill(kafka, count) {
  const producer = client(kafka.addr).producer({ createPartitioner: Partitioners.DefaultPartitioner });
  await producer.connect();
  for (let done = 0; done < count; done += 2000) {
    const message = (_, n) => ({ partition: n % PARTITIONS, headers: { "X-Operator": "user", "X-Uid": "nobody" }, value: EVENT });
    await producer.send({ topic: "commands", messages: Array.from({ length: 2000 }, message) });
  }
  await producer.disconnect();
}

async function main() {
  const { values: options } = parseArgs({
    options: {
      sockeye: { type: "string" },
      java: { type: "string", default: "kafka-java" },
      events: { type: "string", default: "400000" },
      rounds: { type: "string", default: "3" },
    },
  });
  const [program, java] = [options.sockeye, options.java].map((path) => (path.includes("/") ? absolute(path) : path));
  const count = Number(options.events);
  const folder = await mkdtemp(join(tmpdir(), "kafka-"));
  const kafka = await broker(java, folder);
  try {
    await fill(kafka, count);
    console.log(`| server | out, events/s | CPU us each | in, commands/s | CPU us each |\n|---|---:|---:|---:|---:|`);
    for (let round = 0; round < Number(options.rounds); round++) {
      for (const [name, make] of [["Sockeye", sockeye], ["Node with kafkajs", node]]) {
        const said = await out(make, program, kafka, folder, count);
        const heard = await within(make, program, kafka, folder, count, `${name.split(" ")[0]}-${round}`);
        const cells = [said.rate.toFixed(0), said.cpu.toFixed(1), heard.rate.toFixed(0), heard.cpu.toFixed(1)];
        console.log(`| ${name} | ${cells.join(" | ")} |`);
      }
    }
  } finally {
    await kafka.admin.disconnect();
    kafka.child.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

if (process.argv[2] === "peer") await peer(process.argv[3], process.argv[4]);
else await main();
