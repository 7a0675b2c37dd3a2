// A tool's result by its kind: text, JSON, a difference, a table, HTML in a frame that can do nothing. (ZE-H15)

import { html, useState } from "../lib/html.js";
import { size } from "../lib/words.js";
import { wordsOf } from "../state/entry.js";
import { Diff, isDiff } from "../view/diff.js";
import { Tree } from "../view/tree.js";

/** Characters of a text that are shown before somebody asks for more. */
const SHOWN = 4000;

/** @param {{blocks: any[], error: boolean}} props */
export const Result = ({ blocks, error }) => html`<div class="result" data-error=${error}>${blocks.map((block, at) => html`<${One} key=${at} block=${block} />`)}</div>`;

/** @param {{block: any}} props */
function One({ block }) {
  const [all, setAll] = useState(false);
  if (block.kind === "image" || block.kind === "file") {
    const { media_type: type, size_bytes: bytes } = block.blob ?? {};
    return html`<p class="quiet">${block.name ?? (block.kind === "image" ? "A picture" : "A file")}: ${type}, ${size(bytes ?? 0)}</p>`;
  }
  const text = wordsOf(block.text);
  if (isDiff(text)) return html`<${Diff} text=${text} />`;
  const value = parsed(text);
  const table = rowsOf(value);
  if (table) return html`<${Table} rows=${table} />`;
  if (value !== undefined) return html`<${Tree} value=${value} />`;
  if (/^\s*<(!doctype html|html)[\s>]/i.test(text)) return html`<iframe class="frame" sandbox="" title="HTML that a tool returned" srcdoc=${text}></iframe>`;
  const shown = all ? text : text.slice(0, SHOWN);
  return html`<pre tabindex="0">${shown}</pre>${shown.length < text.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${text.length.toLocaleString()} characters</button>`}`;
}

/** The value of a JSON text that is worth more than its text. @param {string} text */
function parsed(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 500_000) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Rows of a list of flat objects. @param {any} value @returns {Record<string, any>[] | null} */
function rowsOf(value) {
  if (!Array.isArray(value) || value.length < 2 || value.length > 200) return null;
  const flat = (/** @type {any} */ row) => row && typeof row === "object" && !Array.isArray(row) && Object.values(row).every((cell) => cell === null || typeof cell !== "object");
  return value.every(flat) && Object.keys(value[0]).length <= 8 ? value : null;
}

/** @param {{rows: Record<string, any>[]}} props */
function Table({ rows }) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return html`<div class="table" tabindex="0"><table><thead><tr>${names.map((name) => html`<th>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${names.map((name) => html`<td>${row[name] === undefined ? "" : String(row[name])}</td>`)}</tr>`)}</tbody></table></div>`;
}
