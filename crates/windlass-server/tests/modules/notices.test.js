// Notices.

import assert from "node:assert/strict";
import { test } from "node:test";

const { dismiss, done, hold, notices, resume, warn } = await import("../../ui/app/state/notices.js");

test("a notice starts with a capital letter", () => {
  warn("a run is active in this thread");
  assert.equal(notices.value.at(-1).title, "A run is active in this thread");
  dismiss(notices.value.at(-1).id);
});

test("a notice is dismissed after its time, and an error after a longer time", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  done("Copied");
  warn("It did not work");
  context.mock.timers.tick(8000);
  assert.deepEqual(notices.value.map((one) => one.title), ["It did not work"]);
  context.mock.timers.tick(12_000);
  assert.deepEqual(notices.value, []);
});

test("a notice stays while it is held", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  warn("It did not work");
  const [{ id }] = notices.value;
  hold(id);
  context.mock.timers.tick(60_000);
  assert.equal(notices.value.length, 1);
  resume(id);
  context.mock.timers.tick(20_000);
  assert.equal(notices.value.length, 0);
});
