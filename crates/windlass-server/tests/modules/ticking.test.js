// The shared clock of ages and countdowns.

import assert from "node:assert/strict";
import { test } from "node:test";

/** @type {(() => void)[]} */
const heard = [];
globalThis.document = { hidden: false, addEventListener: (_, hear) => heard.push(hear), removeEventListener: (_, hear) => heard.splice(heard.indexOf(hear), 1) };
const { keep, now } = await import("../../ui/app/view/ticking.js");

test("one clock serves all users, and stops without users or while the page is hidden", (context) => {
  context.mock.timers.enable({ apis: ["setInterval", "Date"], now: 5000 });
  let times = 0;
  const unsubscribe = now.subscribe(() => (times += 1));
  const ends = [keep(), keep()];
  assert.equal(now.value, 5000);
  for (let second = 0; second < 3; second += 1) context.mock.timers.tick(1000);
  assert.equal(now.value, 8000);
  // On subscribing, when the clock starts, and once a second for both users.
  assert.equal(times, 5);
  ends[0]();
  context.mock.timers.tick(1000);
  assert.equal(now.value, 9000);
  document.hidden = true;
  heard.forEach((hear) => hear());
  context.mock.timers.tick(10_000);
  assert.equal(now.value, 9000, "the clock stops while the page is hidden");
  document.hidden = false;
  heard.forEach((hear) => hear());
  assert.equal(now.value, 19_000, "the clock is correct as soon as the page is visible");
  ends[1]();
  context.mock.timers.tick(10_000);
  assert.deepEqual([now.value, heard.length], [19_000, 0]);
  unsubscribe();
});
