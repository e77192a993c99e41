// Two official clients in one channel, each publishing twenty messages; both must hear all forty
// in the order they were published by each.
import { Centrifuge } from "centrifuge";
import WebSocket from "ws";

const url = process.argv[2];
const each = 20;

async function member() {
  const client = new Centrifuge(url, { websocket: WebSocket });
  const channel = client.newSubscription("room");
  const heard = [];
  channel.on("publication", ({ data }) => heard.push(data));
  const ready = new Promise((resolve) => channel.on("subscribed", resolve));
  channel.subscribe();
  client.connect();
  await ready;
  return { client, channel, heard };
}

const members = [await member(), await member()];
for (let number = 0; number < each; number += 1) {
  for (const [from, { channel }] of members.entries()) await channel.publish({ from, number });
}
const all = each * members.length;
const deadline = Date.now() + 5000;
while (members.some(({ heard }) => heard.length < all) && Date.now() < deadline) {
  await new Promise((resolve) => setTimeout(resolve, 20));
}
for (const { heard } of members) {
  for (const sender of members.keys()) {
    const numbers = heard.filter(({ from }) => from === sender).map(({ number }) => number);
    if (numbers.some((number, at) => number !== at)) throw new Error(`out of order: ${numbers}`);
  }
}
console.log(`first heard ${members[0].heard.length}, second heard ${members[1].heard.length}`);
for (const { client } of members) client.disconnect();
