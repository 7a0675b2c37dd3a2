// The line where a rollback starts: the messages below are dimmed, and the files of the new conversation are listed. (ZE-P9)

import { html } from "../lib/html.js";
import { plural } from "../lib/words.js";

/** Labels of file changes in the copy. @type {Record<string, string>} */
const FATES = {
  restored: "restored to its content before this message",
  removed: "removed",
};

/** Descriptions of the new conversation's folder, by its origin. */
const FOLDERS = {
  copied: "It gets a copy of the files from before this message. The files of this conversation do not change.",
  shared: "It works in the same folder. The files do not change.",
  empty: "",
};

/** @param {{rollback: import("../state/fork.js").Plan, onCancel: () => void}} props */
export const RollbackLine = ({ rollback: { files }, onCancel }) => html`<section class="rollback" aria-label="Rolled back to here">
  <div class="row"><strong class="fill">Rolled back to here</strong><button type="button" onClick=${onCancel}>Cancel rollback</button></div>
  <p>Messages below will be left out. Your next message continues from here in a new conversation. ${FOLDERS[files.folder]}</p>
  ${files.restored.length > 0 && html`<p>Changes in the copy:</p><ul>${files.restored.map((file) => html`<li key=${file.path}><code>${file.path}</code> ${FATES[file.fate] ?? file.fate}</li>`)}</ul>`}
  ${files.not_restored.length > 0 && html`<p>Not restored:</p><ul>${files.not_restored.map((file) => html`<li key=${file.path}><code>${file.path}</code> ${file.why}</li>`)}</ul>`}
  ${files.unseen_total > 0 && html`<p class="quiet">${plural(files.unseen_total, "later call")} may have made unrecorded file changes, for example by commands.</p>`}
</section>`;
