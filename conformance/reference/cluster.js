// Joining a Redis cluster with one of Socket.IO's own adapters (key prefix `socket.io`).
import { createAdapter, createShardedAdapter } from "@socket.io/redis-adapter";
import { createAdapter as createStreamsAdapter } from "@socket.io/redis-streams-adapter";
import { createClient, createCluster } from "redis";

export async function joinCluster(io, { redis, adapter, shardedMode }) {
  const publisher = await connect(redis);
  if (adapter === "streams") return io.adapter(createStreamsAdapter(publisher));
  const subscriber = await connect(redis);
  if (adapter === "sharded") return io.adapter(createShardedAdapter(publisher, subscriber, { subscriptionMode: shardedMode }));
  io.adapter(createAdapter(publisher, subscriber));
}

/** Several addresses are those of a Redis Cluster. */
async function connect(redis) {
  const rootNodes = redis.split(",").map((url) => ({ url }));
  const client = rootNodes.length > 1 ? createCluster({ rootNodes }) : createClient(rootNodes[0]);
  client.on("error", (error) => console.error(`redis ${redis}: ${error.message}`));
  await client.connect();
  return client;
}
