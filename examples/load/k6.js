// Guests of the gateway's chat profile: each connects, joins a room, says five things one after the other, and leaves.
//   sockeye serve &  k6 run -e TARGET=http://localhost:3000 examples/load/k6.js
// k6 speaks WebSocket and not Socket.IO, so its packets are made here: one character of Engine.IO, one of Socket.IO, the ack's number, JSON.
import { check } from "k6";
import { Counter, Trend } from "k6/metrics";
import { WebSocket } from "k6/websockets";

const URL = `${(__ENV.TARGET || "http://localhost:3000").replace(/^http/, "ws")}/socket.io/?EIO=4&transport=websocket`;
const SAYS = Array(5).fill(["chat-message", { room: "kitchen", content: "a message of a k6 guest" }]);
const EVENTS = [["join", "kitchen"], ...SAYS];

const answered = new Counter("acks");
const waited = new Trend("ack_time", true);

export const options = {
  scenarios: { guests: { executor: "constant-arrival-rate", rate: 5, duration: "5s", preAllocatedVUs: 25 } },
  thresholds: { checks: ["rate==1"], ack_time: ["p(95)<1000"] },
};

export default function () {
  const socket = new WebSocket(URL);
  let number = -1;
  let asked = 0;
  const next = () => {
    number += 1;
    asked = Date.now();
    if (number === EVENTS.length) return socket.close();
    socket.send(`42${number}${JSON.stringify(EVENTS[number])}`);
  };
  socket.onmessage = ({ data }) => {
    if (data.startsWith("0")) socket.send("40");
    else if (data === "2") socket.send("3");
    else if (data.startsWith("40")) next();
    else if (data.startsWith(`43${number}[`)) {
      answered.add(1);
      waited.add(Date.now() - asked);
      check(JSON.parse(data.slice(data.indexOf("["))), { "the event was taken": ([answer]) => !answer || !answer.error });
      next();
    }
  };
  socket.onclose = () => check(number, { "all events were answered": (count) => count === EVENTS.length });
}
