// JSON inside of strings.

import assert from "node:assert/strict";
import { test } from "node:test";

import { embedded, isRaw } from "../../ui/app/lib/exact.js";

// rows: SK-U4
test("only a JSON object or array in a text is parsed", () => {
  assert.deepEqual(embedded(' {"a": [1, "b"]}'), { a: [1, "b"] });
  assert.deepEqual(embedded("[]"), []);
  for (const text of ["", "12", '"a"', "null", "{no JSON}", "[1] and more", `[${"1,".repeat(300_000)}1]`]) assert.equal(embedded(text), null);
  assert.ok(isRaw(embedded('{"id": 12345678901234567890}').id));
});
