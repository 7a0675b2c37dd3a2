// Two texts beside each other, line by line: what goes and what comes.

import { html, useMemo } from "../lib/html.js";
import { visible } from "../lib/exact.js";
import { Lines } from "./diff.js";

/** Pairs of lines that are compared; of longer texts the one goes whole, and the other comes. */
const PAIRS = 1_000_000;

/** @typedef {{kind: "same" | "removed" | "added", text: string}} Line */

/** @param {{before: string, after: string}} props */
export function Changes({ before, after }) {
  const lines = useMemo(() => changes(split(before), split(after)), [before, after]);
  return html`<${Lines} lines=${lines.map(({ kind, text }) => ({ kind, text: SIGNS[kind] + text }))} />`;
}

const SIGNS = { same: " ", removed: "-", added: "+" };

/** @param {string} text */
const split = (text) => (text === "" ? [] : visible(text).replace(/\n$/, "").split("\n"));

/** The fewest lines that go and come: what both have in the same order stays. @param {string[]} before @param {string[]} after @returns {Line[]} */
export function changes(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const of = (/** @type {string[]} */ lines, /** @type {Line["kind"]} */ kind) => lines.map((text) => ({ kind, text }));
  const tail = of(before.slice(before.length - end), "same");
  return [...of(before.slice(0, start), "same"), ...between(before.slice(start, before.length - end), after.slice(start, after.length - end), of), ...tail];
}

/** @param {string[]} before @param {string[]} after @param {(lines: string[], kind: Line["kind"]) => Line[]} of */
function between(before, after, of) {
  if (before.length * after.length > PAIRS) return [...of(before, "removed"), ...of(after, "added")];
  // How many lines the rests of both have in common, from each place on.
  const common = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) common[i][j] = before[i] === after[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  /** @type {Line[]} */
  const lines = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push({ kind: "same", text: before[i] });
      [i, j] = [i + 1, j + 1];
    } else if (i < before.length && (j === after.length || common[i + 1][j] >= common[i][j + 1])) {
      lines.push({ kind: "removed", text: before[i] });
      i += 1;
    } else {
      lines.push({ kind: "added", text: after[j] });
      j += 1;
    }
  }
  return lines;
}
