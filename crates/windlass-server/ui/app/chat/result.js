// A tool's result, rendered by its kind: text, JSON, a diff, a table, HTML in an isolated frame, and content whose type
// the tool declares. (ZE-H15)

import { embedded, isRaw } from "../lib/exact.js";
import { html, useState } from "../lib/html.js";
import { wordsOf } from "../state/entry.js";
import { Diff, isDiff } from "../view/diff.js";
import { Markdown } from "../view/markdown.js";
import { Tree } from "../view/tree.js";
import { Frame } from "./frame.js";
import { Media } from "./picture.js";

/** Number of characters of a text that are initially shown. */
const SHOWN = 4000;

/** @param {{thread: string, blocks: any[], error: boolean}} props */
export const Result = ({ thread, blocks, error }) => html`<div class="result" data-error=${error}>${blocks.map((block, at) => html`<${One} key=${at} thread=${thread} block=${block} />`)}</div>`;

/** @param {{thread: string, block: any}} props */
function One({ thread, block }) {
  if (block.kind === "image" || block.kind === "file") return html`<p><${Media} thread=${thread} block=${block} /></p>`;
  return html`<${Text} text=${wordsOf(block.text)} />`;
}

/** Renders a text by its detected format. @param {{text: string}} props */
function Text({ text }) {
  const [all, setAll] = useState(false);
  if (isDiff(text)) return html`<${Diff} text=${text} />`;
  const value = embedded(text);
  const typed = typedOf(value);
  if (typed) return html`<${Typed} ...${typed} />`;
  const table = rowsOf(value);
  if (table) return html`<${Table} rows=${table} />`;
  if (value !== null) return html`<${Tree} value=${value} />`;
  if (/^\s*<(!doctype html|html)[\s>]/i.test(text)) return html`<${Frame} text=${text} />`;
  const shown = all ? text : text.slice(0, SHOWN);
  return html`<pre tabindex="0">${shown}</pre>${shown.length < text.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${text.length.toLocaleString()} characters</button>`}`;
}

/**
 * Returns a list of flat objects as table rows, or null for any other value.
 * @param {any} value @returns {Record<string, any>[] | null}
 */
function rowsOf(value) {
  if (!Array.isArray(value) || value.length < 2 || value.length > 200) return null;
  const flat = (/** @type {any} */ row) => row && typeof row === "object" && !Array.isArray(row) && Object.values(row).every((cell) => cell === null || typeof cell !== "object" || isRaw(cell));
  return value.every(flat) && Object.keys(value[0]).length <= 8 ? value : null;
}

/** @param {{rows: Record<string, any>[]}} props */
function Table({ rows }) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return html`<div class="table" tabindex="0"><table><thead><tr>${names.map((name) => html`<th>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${names.map((name) => html`<td>${plainly(row[name])}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** Formats a scalar value. @param {any} value */
const plainly = (value) => (value === undefined ? "" : isRaw(value) ? value.rawJSON : String(value));

const KINDS = ["text", "html", "markdown", "code", "json", "image", "error"];
/** Image types that cannot contain scripts. */
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[a-z0-9+/=\s]+$/i;

/** @typedef {{type: string, data: any, language?: string, title?: string, message?: string, path?: string}} TypedContent */

/**
 * Returns content with a declared type, which is the whole value or its field `content`. Null for any other value.
 * @param {any} value @returns {TypedContent | null}
 */
function typedOf(value) {
  const isOne = (/** @type {any} */ one) => one !== null && typeof one === "object" && KINDS.includes(one.type) && one.data !== undefined;
  if (isOne(value)) return value;
  if (isOne(value?.content)) return { ...value.content, message: value.message, path: value.file_path };
  return null;
}

/** @param {TypedContent} props */
function Typed({ type, data, language, title, message, path }) {
  const text = typeof data === "string" ? data : JSON.stringify(data, null, 2);
  return html`${message && html`<p>${plainly(message)}</p>`}${(title || path) && html`<p class="quiet"><strong>${plainly(title)}</strong> ${path && html`<code>${plainly(path)}</code>`}</p>`}${inside()}`;
  function inside() {
    switch (type) {
      case "html":
        return html`<${Frame} text=${text} />`;
      case "markdown":
        return html`<${Markdown} text=${text} />`;
      case "code":
        return html`<${Markdown} text=${fenced(text, language ?? "")} />`;
      case "json":
        return html`<${Tree} value=${typeof data === "string" ? (embedded(data) ?? data) : data} />`;
      case "image": {
        const address = text.startsWith("data:") ? text : `data:image/png;base64,${text}`;
        return PICTURE.test(address) ? html`<img class="picture" src=${address} alt=${plainly(title ?? "Image returned by a tool")} />` : html`<p class="quiet">External image, not loaded: ${text.slice(0, 200)}</p>`;
      }
      case "error":
        return html`<p class="note" data-tone="error">${text}</p>`;
      default:
        return html`<pre tabindex="0">${text}</pre>`;
    }
  }
}

/**
 * Wraps a text in a code fence that is longer than any fence in the text.
 * @param {string} text @param {string} language
 */
function fenced(text, language) {
  const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return `${fence}${plainly(language).replace(/[^\w+#.-]/g, "")}\n${text}\n${fence}`;
}
