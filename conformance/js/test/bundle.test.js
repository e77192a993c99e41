// The stock client bundle that pages load from the server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { test } from "node:test";
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import { request } from "../peer/http.js";

const require = createRequire(import.meta.url);
// dist/ is not among the package's exports, so it is found from its entry point.
const packageRoot = require.resolve("socket.io-client").replace(/(socket\.io-client)[\\/].*$/, "$1");
const { version } = JSON.parse(readFileSync(path.join(packageRoot, "package.json")));

const SCRIPTS = ["socket.io.js", "socket.io.min.js", "socket.io.esm.min.js", "socket.io.msgpack.min.js"];
const DECODERS = { gzip: gunzipSync, deflate: inflateSync, br: brotliDecompressSync };

function decoded({ headers, bytes }) {
  const encoding = headers["content-encoding"];
  return encoding === undefined ? bytes : DECODERS[encoding](bytes);
}

for (const name of SCRIPTS.flatMap((script) => [script, `${script}.map`])) {
  test(`/socket.io/${name} is the published file, tagged with its version`, async () => {
    const answer = await request(`/socket.io/${name}`);
    assert.equal(answer.status, 200);
    assert.match(answer.headers["content-type"], name.endsWith(".map") ? /^application\/json/ : /^(application|text)\/javascript/);
    assert.match(answer.headers.etag, new RegExp(`^(W/)?"${version.replaceAll(".", "\\.")}"$`));
    // Without Accept-Encoding any coding is allowed (RFC 9110 12.5.3), as long as it is named.
    const bytes = decoded(answer);
    assert.ok(bytes.equals(readFileSync(path.join(packageRoot, "dist", name))), `${bytes.length} bytes differ from the package's`);
  });
}

test("a browser that has it already gets 304 without a body", async () => {
  const { headers } = await request("/socket.io/socket.io.js");
  const again = await request("/socket.io/socket.io.js", { headers: { "if-none-match": headers.etag } });
  assert.equal(again.status, 304);
  assert.equal(again.body, "");
  assert.equal((await request("/socket.io/socket.io.js", { headers: { "if-none-match": '"0.0.0"' } })).status, 200);
});

test("a compressed answer decodes to the same file", async () => {
  const plain = await request("/socket.io/socket.io.min.js", { headers: { "accept-encoding": "identity" } });
  assert.equal(plain.headers["content-encoding"], undefined);
  for (const encoding of Object.keys(DECODERS)) {
    const answer = await request("/socket.io/socket.io.min.js", { headers: { "accept-encoding": encoding } });
    const used = answer.headers["content-encoding"];
    assert.ok(used === undefined || used === encoding, `answered with ${used}`);
    assert.ok(decoded(answer).equals(plain.bytes), encoding);
  }
});

test("the query does not matter, other names are no bundle", async () => {
  assert.equal((await request("/socket.io/socket.io.js?v=1")).status, 200);
  assert.notEqual((await request("/socket.io/socket.io.slim.js")).status, 200);
});
