// The door that visitors come to: `/socket.io/` and `/sse` go to the gateway, all else to a program that serves pages. It stands for the
// load balancer that you have.
import { createServer, request } from "node:http";
import { connect } from "node:net";

const isForGateway = (url) => url.startsWith("/socket.io/") || /^\/sse(\?|$)/.test(url);

/** `pages` are tried in turn: a program may just be gone. */
export function openFront(port, gatewayPort, pages) {
  const server = createServer((req, res) => {
    pass(req, res, isForGateway(req.url) ? [gatewayPort] : pages);
  });
  server.on("upgrade", (req, socket, head) => {
    const far = connect(gatewayPort, "127.0.0.1");
    far.write(headOf(req));
    far.write(head);
    pipe(socket, far);
    pipe(far, socket);
  });
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(new Error(`cannot open the front door: ${error.message}; end the program that has port ${port}`)));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

function pass(req, res, [port, ...others]) {
  // A connection for each request: one that is kept may lead to a program that is gone.
  const far = request({ agent: false, port, host: "127.0.0.1", method: req.method, path: req.url, headers: req.headers });
  far.on("response", (answer) => {
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
    answer.on("error", () => res.destroy());
  });
  far.on("error", (error) => {
    if (error.code === "ECONNREFUSED" && others.length > 0) return pass(req, res, others);
    if (res.headersSent) return res.destroy();
    res.writeHead(502, { "content-type": "text/plain" });
    res.end(`nobody answers on port ${port}\n`);
  });
  res.on("close", () => far.destroy());
  // A body that went to one that does not answer would be missing at the next.
  far.on("socket", (socket) => socket.on("connect", () => req.pipe(far)));
}

function headOf({ method, url, rawHeaders }) {
  const lines = [`${method} ${url} HTTP/1.1`];
  for (let at = 0; at < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}

function pipe(from, to) {
  from.pipe(to);
  from.on("error", () => to.destroy());
  from.on("close", () => to.destroy());
}
