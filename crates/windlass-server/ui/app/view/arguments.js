// The arguments of a call by name. Long texts are shown unchanged; JSON, also inside of strings, is shown as a tree.

import { embedded, isRaw, visible, written } from "../lib/exact.js";
import { html } from "../lib/html.js";
import { tidyJson } from "../lib/words.js";
import { Tree } from "./tree.js";

/** @param {{text: string}} props */
export function Arguments({ text }) {
  const values = embedded(text);
  if (values === null || Array.isArray(values) || Object.keys(values).length === 0) return html`<pre tabindex="0">${tidyJson(text)}</pre>`;
  return html`<dl class="arguments">${Object.entries(values).map(([name, value]) => html`<dt>${visible(name)}</dt><dd><${Value} value=${value} /></dd>`)}</dl>`;
}

/** @param {{value: any}} props */
function Value({ value }) {
  if (typeof value === "string") {
    const inner = embedded(value);
    if (inner !== null) return html`<${Tree} value=${inner} />`;
    return html`<pre tabindex="0">${visible(value)}</pre>`;
  }
  if (value !== null && typeof value === "object" && !isRaw(value)) return html`<${Tree} value=${value} />`;
  return html`<code>${written(value)}</code>`;
}
