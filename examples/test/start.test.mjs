// What cannot live is not started for ever.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
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
