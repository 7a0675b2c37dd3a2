// A line-by-line comparison of two texts.

/**
 * Maximum product of both line counts for a comparison. Above the maximum, all lines between the common start and end
 * are reported as changed.
 */
const PAIRS = 4_000_000;

/** @typedef {{kind: "same" | "added" | "removed", text: string}} Line */

/**
 * Returns the lines of both texts in order; common lines appear once.
 * @param {string} before @param {string} after @returns {Line[]}
 */
export function compared(before, after) {
  // An empty text has no lines, and a final line break starts no line.
  const [a, b] = [before, after].map((text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n")));
  let head = 0;
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const lines = (/** @type {Line["kind"]} */ kind, /** @type {string[]} */ some) => some.map((text) => ({ kind, text }));
  return [
    ...lines("same", a.slice(0, head)),
    ...between(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...lines("same", a.slice(a.length - tail)),
  ];
}

/**
 * Compares two lists of lines by their longest common subsequence.
 * @param {string[]} a @param {string[]} b @returns {Line[]}
 */
function between(a, b) {
  const width = b.length + 1;
  const isTooMuch = a.length * b.length > PAIRS;
  const longest = isTooMuch ? null : new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; longest && i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  /** @type {Line[]} */
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (longest && i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: "same", text: a[i] });
      i += 1;
      j += 1;
    } else if (i < a.length && (!longest || j === b.length || longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      lines.push({ kind: "removed", text: a[i++] });
    } else lines.push({ kind: "added", text: b[j++] });
  }
  return lines;
}
