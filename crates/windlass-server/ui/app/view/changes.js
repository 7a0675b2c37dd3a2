// A diff of two texts, line by line.

import { html, useMemo } from "../lib/html.js";
import { visible } from "../lib/exact.js";
import { compared } from "../lib/lines.js";
import { Lines } from "./diff.js";

const SIGNS = { same: " ", removed: "-", added: "+" };

/** @param {{before: string, after: string, label?: string}} props */
export function Changes({ before, after, label }) {
  const lines = useMemo(() => compared(visible(before), visible(after)), [before, after]);
  return html`<${Lines} lines=${lines.map(({ kind, text }) => ({ kind, text: SIGNS[kind] + text }))} label=${label} />`;
}
