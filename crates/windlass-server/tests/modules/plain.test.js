// Markdown as plain text.

import assert from "node:assert/strict";
import { test } from "node:test";

import { plain } from "../../ui/app/lib/plain.js";

test("code keeps its characters, other text loses its markers", () => {
  assert.equal(plain("Some **words** and `code`."), "Some words and code.");
  assert.equal(plain("```python\nx = a**b**c\n```"), "x = a**b**c");
});

test("lists, tables and links stay readable", () => {
  assert.equal(plain("- *one*\n- [x] two\n\n3. three\n4. four"), "- one\n- [x] two\n\n3. three\n4. four");
  assert.equal(plain("| a | b |\n|---|---|\n| 1 | 2 |"), "a\tb\n1\t2");
  assert.equal(plain("[here](https://example.com) and <https://example.org>"), "here (https://example.com) and https://example.org");
});
