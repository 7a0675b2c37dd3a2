// The lines of two texts, compared.

import assert from "node:assert/strict";
import { test } from "node:test";

import { compared } from "../../ui/app/lib/lines.js";

/** The comparison in the notation of a diff. */
const diff = (before, after) => compared(before, after).map(({ kind, text }) => ({ same: " ", added: "+", removed: "-" })[kind] + text);

test("lines that both texts have appear once", () => {
  assert.deepEqual(diff("a\nb\nc\n", "a\nx\nc\n"), [" a", "-b", "+x", " c"]);
  assert.deepEqual(diff("a\nb\nc", "b\nc\nd"), ["-a", " b", " c", "+d"]);
});

test("an empty text has no lines", () => {
  assert.deepEqual(diff("", "a\n"), ["+a"]);
  assert.deepEqual(diff("a\n", ""), ["-a"]);
  assert.deepEqual(diff("", ""), []);
});

test("either text can be rebuilt from the comparison", () => {
  let seed = 7;
  const below = (end) => (seed = (seed * 48271) % 2147483647) % end;
  const text = () => Array.from({ length: below(8) }, () => "abc"[below(3)]).join("\n");
  for (let round = 0; round < 2000; round += 1) {
    const [before, after] = [text(), text()];
    const lines = compared(before, after);
    const without = (kind) => lines.filter((line) => line.kind !== kind).map((line) => line.text);
    assert.deepEqual(without("added"), before === "" ? [] : before.split("\n"));
    assert.deepEqual(without("removed"), after === "" ? [] : after.split("\n"));
  }
});

test("texts beyond the limit count as replaced", () => {
  const many = (word) => Array.from({ length: 2100 }, (_, at) => `${word}${at % 2 ? at : ""}`).join("\n");
  const lines = compared(many("a"), `x\n${many("a")}\ny`);
  assert.equal(lines.filter((line) => line.kind === "same").length, 0);
});
