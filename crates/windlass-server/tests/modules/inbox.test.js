// Open interrupts: their order, their summaries, and the counts in the list of conversations.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.location = { pathname: "/", search: "" };
globalThis.document = { hidden: false };
const { inbox, replace } = await import("../../ui/app/state/inbox.js");
const { threads } = await import("../../ui/app/state/threads.js");
const { summary } = await import("../../ui/app/state/interrupts.js");

const ask = (id, run, since) => ({ id, run, thread: `of ${run}`, since, kind: "approval", tool: "Write", counts: true });
const order = () => inbox.value.map((open) => open.id);

test("runs are ordered by their first request, and calls by their order in the run", () => {
  replace("of one", [ask("one.1", "one", 30), ask("one.2", "one", 10), ask("one.3", "one", 20)]);
  replace("of two", [ask("two.1", "two", 15)]);
  assert.deepEqual(order(), ["one.1", "one.2", "one.3", "two.1"]);
  // An answer does not change the order of the others.
  replace("of one", [ask("one.1", "one", 30), ask("one.3", "one", 20)]);
  assert.deepEqual(order(), ["one.1", "one.3", "two.1"]);
  replace("of one", []);
  replace("of one", [ask("one.4", "one", 40)]);
  assert.deepEqual(order(), ["two.1", "one.4"]);
  replace("of one", []);
  replace("of two", []);
});

test("the list of conversations counts open interrupts as soon as they are loaded", () => {
  threads.value = [{ id: "of one", interrupts: 0 }, { id: "of two", interrupts: 0 }];
  replace("of one", [ask("one.1", "one", 1), ask("one.2", "one", 1)]);
  assert.deepEqual(threads.value.map((thread) => thread.interrupts), [2, 0]);
  replace("of one", []);
  assert.deepEqual(threads.value.map((thread) => thread.interrupts), [0, 0]);
});

test("a call of a tool server names the server", () => {
  assert.equal(summary({ ...ask("i", "r", 1), tool: "echo", server: "everything" }), "Allow echo (server everything) to run?");
  assert.equal(summary({ ...ask("i", "r", 1), server: null }), "Allow Write to run?");
});

test("a call that writes a file names the file", () => {
  const previewed = (preview) => summary({ ...ask("i", "r", 1), preview });
  assert.equal(previewed("--- /dev/null\n+++ b/notes.md (12 bytes)\n@@ -0,0 +1 @@\n+a\n"), "Allow Write to create notes.md?");
  assert.equal(previewed("--- a/a b.md (3 bytes, blake3 00)\n+++ b/a b.md (4 bytes, resolves to /x)\nno change\n"), "Allow Write to change a b.md?");
  assert.equal(previewed("It deletes everything."), "Allow Write to run?");
});
