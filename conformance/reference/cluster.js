// Joining a Redis cluster with one of Socket.IO's own adapters (key prefix `socket.io`).
import { createAdapter, createShardedAdapter } from "@socket.io/redis-adapter";
import { createAdapter as createStreamsAdapter } from "@socket.io/redis-streams-adapter";
import { createClient } from "redis";

export async function joinCluster(io, { redis, adapter }) {
  const publisher = await connect(redis);
  if (adapter === "streams") return io.adapter(createStreamsAdapter(publisher));
  const subscriber = await connect(redis);
  io.adapter(adapter === "sharded" ? createShardedAdapter(publisher, subscriber) : createAdapter(publisher, subscriber));
}

async function connect(url) {
  const client = createClient({ url });
  client.on("error", (error) => console.error(`redis ${url}: ${error.message}`));
  await client.connect();
  return client;
}
