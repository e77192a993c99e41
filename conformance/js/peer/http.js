// One HTTP request, seen as it is: status, headers, body, and the power to cut it.
import http from "node:http";
import { url as base } from "./target.js";

/** Sends a request to a path of the server under test; resolves to { status, headers, body, bytes }. */
export function request(path, options = {}) {
  return start(path, options).answer;
}

/** The same, but hands out the request too, so that a test can cut it half-way. */
export function start(path, { body, ...options } = {}) {
  const started = begin(path, options);
  started.outgoing.end(body);
  return started;
}

/** A request whose body the test writes, and ends, itself. */
export function begin(path, { method = "GET", headers = {}, from = base, agent } = {}) {
  const outgoing = http.request(new URL(path, from), { method, headers, agent });
  const answer = new Promise((resolve, reject) => {
    outgoing.on("error", reject);
    outgoing.on("response", (response) => collect(response).then(resolve, reject));
  });
  // A cut request rejects; the test that cut it does not look at the answer.
  answer.catch(() => {});
  return { outgoing, answer };
}

async function collect(response) {
  const chunks = [];
  for await (const chunk of response) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  return { status: response.statusCode, headers: response.headers, bytes, body: bytes.toString("utf8") };
}

export function query(parameters) {
  const text = new URLSearchParams(parameters).toString();
  return text ? `?${text}` : "";
}
