// What cannot live is not started for ever.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { openFront } from "../front.mjs";
import { Stage } from "../stage.mjs";

test("a worker that ended at once was started again for half a minute, and nobody was told why", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sockeye-start-"));
  const [app, starts] = [join(folder, "app.mjs"), join(folder, "starts")];
  writeFileSync(starts, "");
  writeFileSync(app, `import { appendFileSync } from "node:fs"; appendFileSync(${JSON.stringify(starts)}, "+"); process.exit(7);`);
  await assert.rejects(Stage.open(pathToFileURL(app).href), /app.mjs alive: it ended at once, twice, with code 7/);
  // One worker twice, the other at most so.
  assert.match(readFileSync(starts, "utf8"), /^\+{3,4}$/);
});

test("a front door whose port is taken ended the example without a next step", async (t) => {
  const other = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => other.once("listening", resolve));
  t.after(() => other.close());
  const { port } = other.address();
  await assert.rejects(openFront(port, 1, []), new RegExp(`EADDRINUSE.*; end the program that has port ${port}$`));
});
