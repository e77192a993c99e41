// Workers attach by TLS, to the real gateway. SOCKEYE_BIN names the binary.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { io as connect } from "socket.io-client";
import { Server } from "@sockeye/server";

const BINARY = process.env.SOCKEYE_BIN ?? fileURLToPath(new URL("../../../target/debug/sockeye", import.meta.url));
const [, key] = execFileSync(BINARY, ["api-key", "cook"], { encoding: "utf8" }).match(/(sockeye_\S+)/);
const folder = mkdtempSync(join(tmpdir(), "sockeye-tls-"));
const file = (name) => join(folder, name);
const pem = (name) => readFileSync(file(name));
let gateway, addresses;

/** Writes NAME.pem and NAME.key; signed by itself without `signer`. */
function certificate(name, signer) {
  writeFileSync(
    file("request"),
    `[req]\ndistinguished_name = name\nx509_extensions = extensions\nprompt = no\n[name]\nCN = ${name}\n[extensions]\n` +
      `subjectAltName = DNS:localhost, IP:127.0.0.1\nbasicConstraints = critical, CA:${signer ? "FALSE" : "TRUE"}\n`,
  );
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  const files = ["-config", file("request"), "-keyout", file(`${name}.key`), "-out", file(`${name}.pem`)];
  const by = signer ? ["-CA", file(`${signer}.pem`), "-CAkey", file(`${signer}.key`)] : [];
  execFileSync("openssl", ["req", "-x509", ...curve, "-nodes", "-days", "2", ...files, ...by], { stdio: "pipe" });
}

before(async () => {
  certificate("ca");
  certificate("gateway", "ca");
  certificate("worker", "ca");
  certificate("stranger");
  const digest = createHash("sha256").update(key).digest("hex");
  writeFileSync(
    file("sockeye.toml"),
    `profile = "socket.io"\n[log]\nformat = "json"\n[workers]\nlisten = "127.0.0.1:0"\ncert = ["gateway.pem"]\nkey = ["gateway.key"]\n` +
      `client_ca = "ca.pem"\n[backends.kitchen]\napi_keys = ["cook:${digest}"]\n[namespaces."/"]\nbackend = "kitchen"\n`,
  );
  const args = ["--config", file("sockeye.toml"), "--listen", "127.0.0.1:0", "--admin", "off"];
  gateway = spawn(BINARY, args, { stdio: ["ignore", "ignore", "pipe"] });
  for await (const line of createInterface({ input: gateway.stderr })) {
    if (line.includes('"listening"')) {
      addresses = JSON.parse(line);
      break;
    }
  }
  gateway.stderr.resume();
});

after(() => gateway.kill("SIGKILL"));

const worker = (tls, scheme = "https://") =>
  new Server({ gateway: scheme + addresses.workers.replace("127.0.0.1", "localhost"), key, backend: "kitchen", tls });

/** What a worker that cannot attach says. */
async function refusal(tls, scheme) {
  const warned = once(process, "warning");
  const io = worker(tls, scheme);
  const [warning] = await warned;
  await io.close();
  return warning.message;
}

const own = () => ({ cert: pem("worker.pem"), key: pem("worker.key") });

test("a worker with the right certificates is the logic of a namespace", async () => {
  const io = worker({ ca: pem("ca.pem").toString(), ...own() });
  io.on("connection", (socket) => socket.on("echo", (value, done) => done(value)));
  await io.ready;
  const socket = connect(`http://${addresses.addresses.split(",")[0]}`, { transports: ["websocket"] });
  assert.equal(await socket.emitWithAck("echo", "secret"), "secret");
  socket.disconnect();
  await io.close();
});

test("a gateway whose certificate is by an unknown authority is not told the key", async () => {
  assert.match(await refusal({ ca: pem("stranger.pem"), ...own() }), /cannot reach the gateway at https.*certificate/);
});

test("a worker without a certificate, or with one by an unknown authority, is refused and says so", async () => {
  assert.match(await refusal({ ca: pem("ca.pem") }), /cannot reach the gateway at https/);
  const stranger = { cert: pem("stranger.pem"), key: pem("stranger.key") };
  assert.match(await refusal({ ca: pem("ca.pem"), ...stranger }), /cannot reach the gateway at https/);
});

test("a worker without TLS is refused and says so", async () => {
  assert.match(await refusal(undefined, ""), /cannot reach the gateway at localhost/);
});
