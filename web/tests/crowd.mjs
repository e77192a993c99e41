// Clients for tests: `node crowd.mjs COUNT URL…`. They come to the servers in turn, join rooms, and order meals until this process ends.

import { io } from "socket.io-client";

const [count, ...urls] = process.argv.slice(2);
/** As many handshakes at once as a busy machine answers in time. */
const AT_ONCE = 50;

async function come(n) {
  const socket = io(urls[n % urls.length], { transports: ["websocket"], forceNew: true });
  if (!socket.connected)
    await new Promise((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("connect_error", reject);
    });
  await socket.emitWithAck("join", n % 4 === 0 ? "quarter" : "crowd");
  return socket;
}

async function eat(url) {
  const meal = io(`${url}/meal`, { transports: ["websocket"], forceNew: true });
  for (;;) {
    await meal.emitWithAck("order", "soup");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

let next = 0;
const lane = async () => {
  while (next < Number(count)) await come(next++);
};
await Promise.all(Array.from({ length: AT_ONCE }, lane));
// The worker is attached to the first server only.
void eat(urls[0]).catch(() => console.log("the server is gone"));
console.log("ready");
