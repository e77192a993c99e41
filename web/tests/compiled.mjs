// Compiles a module of a page in memory: Node 20 does not read TypeScript.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

/** `path` is under web/, such as `chat/src/rooms.ts`. */
export async function load(path) {
  const bundle = await rolldown({
    input: join(dirname(fileURLToPath(import.meta.url)), "..", path),
  });
  const { output } = await bundle.generate({ format: "esm" });
  await bundle.close();
  return await import(
    `data:text/javascript;base64,${Buffer.from(output[0].code).toString("base64")}`
  );
}
