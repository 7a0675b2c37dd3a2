// The files of a conversation's folder: what its tools have read and written, to look through and to download.

import { BASE, get, query } from "../lib/api.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { full, size } from "../lib/words.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";
import { Missing, useLoaded } from "./loaded.js";

/** Names that the server tells at most. */
const LISTED = 1000;

/** The button, for whoever may see them. @param {{thread: string}} props */
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
  /** What was listed before is not what stands here. */
  const rows = read.value?.at === at ? read.value.data : null;
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    // Whoever goes on by key begins with what has come: what was pressed went with the list before, or cannot be pressed now.
    const active = document.activeElement;
    if (!rows || !nav.current || (active !== document.body && !active?.matches(":disabled"))) return;
    /** @type {HTMLElement | null | undefined} */
    const next = nav.current.parentElement?.querySelector(".files :is(button, a)") ?? [...nav.current.querySelectorAll("button")].findLast((one) => !one.disabled);
    next?.focus();
  }, [rows]);
  return html`<${Dialog} title="Files of this conversation" onClose=${onClose}>
    <nav ref=${nav} class="row wrap path" aria-label="Folder"><button type="button" class="plain" disabled=${path.length === 0} onClick=${() => setPath([])}>The folder</button>
      ${path.map((name, depth) => html`<span key=${depth}>/ <button type="button" class="plain" disabled=${depth === path.length - 1} onClick=${() => setPath(path.slice(0, depth + 1))}>${name}</button></span>`)}</nav>
    <div role="status" class="hidden">${rows && `${rows.length} in ${at || "the folder"}`}</div>
    ${rows === null ? html`<${Missing} of=${read} />` : html`<${List} thread=${thread} path=${path} rows=${rows} onEnter=${(/** @type {string} */ name) => setPath([...path, name])} />`}
    <div class="row end"><button type="button" onClick=${onClose} autofocus>Close</button></div>
  </${Dialog}>`;
}

/** A conversation has no folder before something is put into one. @param {any} error @param {string} at */
function missing(error, at) {
  if (error.status === 404 && at === "") return { at, data: [] };
  throw error;
}

/** @param {{thread: string, path: string[], rows: any[], onEnter: (name: string) => void}} props */
function List({ thread, path, rows, onEnter }) {
  if (rows.length === 0) {
    return path.length > 0
      ? html`<p class="empty">Nothing is in it.</p>`
      : html`<div class="empty"><h2>No files yet</h2><p>What the agent writes stands here, to be looked through and downloaded; what you attach to a message stays with the message. A conversation that was begun on the command line keeps its files in the folder there.</p></div>`;
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
    ${rows.length >= LISTED && html`<p class="quiet">Only the first ${LISTED} are listed; the agent can list the others.</p>`}`;
}
