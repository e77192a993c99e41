// Rules of pages that a machine can judge, and what tests of pages share for that.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axeSource = readFileSync(
  createRequire(import.meta.url).resolve("axe-core/axe.min.js"),
  "utf8",
);

export const PHONE = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };
/** A name that runs a script where a page takes it for markup. */
export const ATTACK = `<img src=x onerror="window.attacked=1">`;

/** What axe finds, contrast included; none is well. */
export async function accessibilityProblems(page) {
  await page.evaluate(axeSource);
  return await page.evaluate(async () => {
    const { violations } = await window.axe.run();
    return violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes.map((node) => `${node.html} ${node.any[0]?.message ?? ""}`).join(" | ")}`,
    );
  });
}
