// Going back to before a message: a line, what follows it dimmed, and what the new conversation's folder will hold. (ZE-P9)

import { html } from "../lib/html.js";
import { plural } from "../lib/words.js";

/** What becomes of a file in the copy. @type {Record<string, string>} */
const FATES = {
  restored: "as it was before this message",
  removed: "removed",
};

/** Which folder the new conversation has. */
const FOLDERS = {
  copied: "It gets a copy of the files as they were before this message. The files of this conversation stay as they are.",
  shared: "It works in the same folder. The files there stay as they are now.",
  empty: "",
};

/** @param {{rollback: import("../state/fork.js").Plan, onCancel: () => void}} props */
export const RollbackLine = ({ rollback: { files }, onCancel }) => html`<section class="rollback" aria-label="Rolled back to here">
  <div class="row"><strong class="fill">Rolled back to here</strong><button type="button" onClick=${onCancel}>Cancel rollback</button></div>
  <p>Messages below will be left out. Your next message continues from here in a new conversation. ${FOLDERS[files.folder]}</p>
  ${files.restored.length > 0 && html`<p>In the copy:</p><ul>${files.restored.map((file) => html`<li key=${file.path}><code>${file.path}</code> ${FATES[file.fate] ?? file.fate}</li>`)}</ul>`}
  ${files.not_restored.length > 0 && html`<p>Not restored:</p><ul>${files.not_restored.map((file) => html`<li key=${file.path}><code>${file.path}</code> ${file.why}</li>`)}</ul>`}
  ${files.unseen_total > 0 && html`<p class="quiet">${plural(files.unseen_total, "later call")} may have changed files without a record, for example commands.</p>`}
</section>`;
