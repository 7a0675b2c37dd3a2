// A unified diff, line by line.

import { html } from "../lib/html.js";

/** Maximum number of lines that are rendered. */
const LINES = 2000;

/** @param {string} text */
export const isDiff = (text) => /^--- .*\n\+\+\+ .*\n@@ /m.test(text.slice(0, 2000));

/** @param {string} line */
function kind(line) {
  if (line.startsWith("+++") || line.startsWith("---")) return "file";
  if (line.startsWith("@@")) return "place";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return "same";
}

/** @param {{text: string}} props */
export const Diff = ({ text }) => html`<${Lines} lines=${text.replace(/\n$/, "").split("\n").map((line) => ({ kind: kind(line), text: line }))} />`;

/** Renders the lines of a diff. @param {{lines: {kind: string, text: string}[], label?: string}} props */
export const Lines = ({ lines, label = "Changes" }) => html`<pre class="diff" tabindex="0" aria-label=${label}>${lines.slice(0, LINES).map(({ kind, text }, at) => html`<span key=${at} data-kind=${kind}>${text || " "}${"\n"}</span>`)}
    ${lines.length > LINES && html`<span data-kind="place">${lines.length - LINES} more lines</span>`}</pre>`;
