// The files of a conversation's folder: browse and download.

import { BASE, get, query } from "../lib/api.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { full, plural, size } from "../lib/words.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";
import { Missing, useLoaded } from "./loaded.js";

/** Maximum number of entries that the server lists. */
const LISTED = 1000;

/** The button that opens the dialog. @param {{thread: string}} props */
export function FilesButton({ thread }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="plain" aria-label="Files" title="Files of this conversation" onClick=${() => setOpen(true)}><${Icon} name="attach" /> <span class="wide-only">Files</span></button>
    ${open && html`<${Files} thread=${thread} onClose=${() => setOpen(false)} />`}`;
}

/** @param {{thread: string, onClose: () => void}} props */
function Files({ thread, onClose }) {
  const [path, setPath] = useState(/** @type {string[]} */ ([]));
  const at = path.join("/");
  const read = useLoaded((stop) => get(`/threads/${thread}/files${query({ path: at })}`, { stop }).then((page) => ({ at, data: page.data }), (error) => missing(error, at)), [at]);
  /** The entries of the current folder; null until they have arrived. */
  const rows = read.value?.at === at ? read.value.data : null;
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    // The pressed button has disappeared or is disabled: move the focus into the new list.
    const active = document.activeElement;
    if (!rows || !nav.current || (active !== document.body && !active?.matches(":disabled"))) return;
    /** @type {HTMLElement | null | undefined} */
    const next = nav.current.parentElement?.querySelector(".files :is(button, a)") ?? [...nav.current.querySelectorAll("button")].findLast((one) => !one.disabled);
    next?.focus();
  }, [rows]);
  return html`<${Dialog} title="Files of this conversation" onClose=${onClose}>
    <nav ref=${nav} class="row wrap path" aria-label="Folder"><button type="button" class="plain" disabled=${path.length === 0} onClick=${() => setPath([])}>Folder</button>
      ${path.map((name, depth) => html`<span key=${depth}>/ <button type="button" class="plain" disabled=${depth === path.length - 1} onClick=${() => setPath(path.slice(0, depth + 1))}>${name}</button></span>`)}</nav>
    <div role="status" class="hidden">${rows && `${plural(rows.length, "item")} in ${at || "the folder"}`}</div>
    ${rows === null ? html`<${Missing} of=${read} />` : html`<${List} thread=${thread} path=${path} rows=${rows} onEnter=${(/** @type {string} */ name) => setPath([...path, name])} />`}
    <div class="row end"><button type="button" onClick=${onClose} autofocus>Close</button></div>
  </${Dialog}>`;
}

/**
 * A conversation has no folder until a tool or user writes a file: show an empty list.
 * @param {any} error @param {string} at
 */
function missing(error, at) {
  if (error.status === 404 && at === "") return { at, data: [] };
  throw error;
}

/** @param {{thread: string, path: string[], rows: any[], onEnter: (name: string) => void}} props */
function List({ thread, path, rows, onEnter }) {
  if (rows.length === 0) {
    return path.length > 0
      ? html`<p class="empty">This folder is empty.</p>`
      : html`<div class="empty"><h2>No files yet</h2><p>Files that the agent writes appear here, and you can download them. Attachments stay with their message. A conversation from the command line uses the folder in which it was started.</p></div>`;
  }
  const folders = rows.filter((row) => row.kind === "directory");
  const sorted = [...folders, ...rows.filter((row) => row.kind !== "directory")];
  return html`<ul class="files">${sorted.map((row) => {
    const own = [...path, row.name].join("/");
    const entered = row.kind === "directory";
    return html`<li key=${own} class="row">
      ${entered
        ? html`<button type="button" class="plain fill" onClick=${() => onEnter(row.name)}><${Icon} name="library" size=${15} /> <span class="clip">${row.name}/</span></button>`
        : html`<a class="fill clip" href=${`${BASE}/threads/${thread}/files/content${query({ path: own })}`} download=${row.name}>${row.name}</a><span class="quiet number">${size(row.size_bytes ?? 0)}</span>`}
      <time class="quiet wide-only">${full(row.modified_at)}</time></li>`;
  })}</ul>
    ${rows.length >= LISTED && html`<p class="quiet">Only the first ${LISTED} items are shown. The agent can list the others.</p>`}`;
}
