// What a gateway knows of items after messages of which the last may be lost, in any order of handling.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Progress } from "../dist/progress.js";

function random(seed) {
  return (below) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
}

/** As the gateway takes it in. */
function hear(known, { handled, beside, begun }) {
  for (let number = 1; number <= handled; number++) known.add(number);
  assert.equal(beside.length % 2, 0);
  let before = handled;
  for (let at = 0; at < beside.length; at += 2) {
    const [first, last] = beside.slice(at, at + 2);
    assert.ok(first > before && first <= last && last <= begun, "rows are in order");
    for (let number = first; number <= last; number++) known.add(number);
    before = last;
  }
}

test("the gateway knows what is handled, whichever end first and whatever is lost", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const dice = random(seed);
    const progress = new Progress();
    const [held, known] = [new Map(), new Set()];
    let lost = false;
    for (let step = 0; step < 200; step++) {
      for (let many = dice(5); many > 0; many--) {
        const number = ++progress.received;
        progress.begun = number;
        for (let holds = dice(3); holds > 0; holds--) {
          progress.hold(number);
          held.set(number, (held.get(number) ?? 0) + 1);
        }
      }
      for (const [number, holds] of [...held]) {
        if (dice(4) > 0) continue;
        progress.release(number);
        if (holds === 1) held.delete(number);
        else held.set(number, holds - 1);
        // A handler may go on in another one.
        if (holds === 1 && dice(4) === 0) {
          progress.hold(number);
          held.set(number, 1);
        }
      }
      const said = progress.next();
      assert.equal(progress.changed, false);
      lost = dice(10) === 0;
      if (lost) progress.again();
      else hear(known, said);
      for (const number of held.keys()) assert.ok(!known.has(number), `${number} is not handled`);
    }
    hear(known, progress.next());
    assert.equal(known.size, progress.received - held.size);
  }
});

test("an item that was told to be handled stays so, and rows that have no room come later", () => {
  const progress = new Progress();
  progress.received = progress.begun = 1;
  assert.deepEqual(progress.next(), { handled: 1, beside: [], begun: 1 });
  progress.hold(1);
  assert.deepEqual(progress.next(), { handled: 1, beside: [], begun: 1 });
  for (let number = 2; number <= 40_000; number += 2) progress.hold(number);
  progress.received = progress.begun = 40_000;
  const known = new Set();
  hear(known, progress.next());
  assert.equal(progress.changed, true);
  while (progress.changed) hear(known, progress.next());
  assert.equal(known.size, 20_000);
});
