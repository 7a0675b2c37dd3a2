// Formatting of numbers, times and sizes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ago, group, length, money, retrying, sentence, short, size, ticks, tidyJson, when } from "../../ui/app/lib/words.js";

test("prices keep two significant digits", () => {
  assert.deepEqual([null, 0, 0.000123, 0.5, 12.3456].map(money), ["–", "$0", "$0.00012", "$0.500", "$12.35"]);
});

test("durations change their unit, and no unit overflows", () => {
  const cases = [null, 0, 999, 999.6, 1000, 59_940, 59_999, 60_000, 119_600, 3_599_999, 3_600_000, 172_799_000, 172_800_000];
  assert.deepEqual(cases.map(length), [
    "–", "0 ms", "999 ms", "1.0 s", "1.0 s", "59.9 s", "1 min 0 s", "1 min 0 s", "2 min 0 s", "1 h 0 min", "1 h 0 min", "47 h 59 min", "2 d 0 h",
  ]);
});

test("sizes change their unit, and no unit overflows", () => {
  const cases = [0, 1023, 1024, 1024 ** 2 - 1, 1024 ** 2, 3.5 * 1024 ** 2];
  assert.deepEqual(cases.map(size), ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.0 MiB", "3.5 MiB"]);
});

test("a moment is described by its distance from now", () => {
  const now = new Date(2026, 10, 24, 12, 0).getTime();
  assert.equal(when(now - 59_999, now), "now");
  assert.equal(when(now - 60_000, now), "1 min");
  assert.equal(when(now - 3_599_999, now), "59 min");
  const day = 86_400_000;
  const groups = [0, day, 2 * day, 8 * day, 40 * day].map((ago) => group(now - ago, now));
  assert.deepEqual(groups.slice(0, 4), ["Today", "Yesterday", "Previous 7 days", "Previous 30 days"]);
  assert.match(groups[4], /2026/);
});

test("JSON keeps the digits of its numbers, and shows what has no width", () => {
  assert.equal(tidyJson('{"a":12345678901234567890,"b":1.0}'), '{\n  "a": 12345678901234567890,\n  "b": 1.0\n}');
  assert.equal(tidyJson("no JSON\u202e"), "no JSON\\u202e");
  assert.equal(short(undefined), "–");
});

test("an age is shown in its largest unit", () => {
  const now = 1e12;
  const cases = [0, 59_999, 60_000, 3_599_999, 3_600_000, 172_799_999, 172_800_000];
  assert.deepEqual(cases.map((past) => ago(now - past, now)), ["just now", "just now", "1 min ago", "59 min ago", "1 h ago", "47 h ago", "2 d ago"]);
});

// rows: SK-L6, SK-L7
test("a retry shows its attempt, the maximum, and the seconds until it starts", () => {
  const retry = { attempt: 2, most: 4, at: 10_000 };
  assert.equal(retrying(retry, 6_000), "Retrying (attempt 2 of 4, in 4 s)");
  assert.equal(retrying(retry, 9_001), "Retrying (attempt 2 of 4, in 1 s)");
  assert.equal(retrying(retry, 10_000), "Retrying (attempt 2 of 4)");
  assert.equal(retrying({ ...retry, most: 0 }, 10_000), "Retrying");
});

test("labels of an axis differ from their neighbours", () => {
  assert.deepEqual(ticks([0, 0.05, 0.1, 0.15]), ["0.00", "0.05", "0.10", "0.15"]);
  assert.deepEqual(ticks([0, 0.5, 1]), ["0.0", "0.5", "1.0"]);
  assert.deepEqual(ticks([0, 2e-6, 4e-6]), ["0.000000", "0.000002", "0.000004"]);
  assert.deepEqual(ticks([0, 500, 1000, 1500]), ["0", "500", "1K", "1.5K"]);
  assert.deepEqual([ticks([]), ticks([3])], [[], ["3"]]);
});

test("a sentence starts with a capital letter", () => {
  assert.deepEqual(["a run is active", "`plna` is no mode", ""].map(sentence), ["A run is active", "`plna` is no mode", ""]);
});
