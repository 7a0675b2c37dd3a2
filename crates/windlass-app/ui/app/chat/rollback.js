// Going back to before a message: a line, what follows it dimmed, and what becomes of files. (ZE-P9)

import { html } from "../lib/html.js";
import { plural } from "../lib/words.js";

/** What is done with a file. @type {Record<string, string>} */
const FATES = {
  restored: "is put back",
  removed: "is removed",
  changed_since: "stays: somebody else has changed it since",
  not_kept: "stays: what it was is not kept",
  failed: "stays",
};

/** @param {{rollback: import("../state/rollback.js").Plan, onCancel: () => void}} props */
export const RollbackLine = ({ rollback, onCancel }) => html`<section class="rollback" aria-label="Rolled back to here">
  <div class="row"><strong class="fill">Rolled back to here</strong><button type="button" onClick=${onCancel}>Cancel rollback</button></div>
  <p>What follows is left out and stays recorded. Your next message goes on from here, in a conversation of its own.</p>
  ${rollback.files.length > 0 && html`<ul>${rollback.files.map((file) => html`<li key=${file.path}><code>${file.path}</code> ${FATES[file.fate] ?? file.fate}</li>`)}</ul>`}
  ${rollback.unseen > 0 && html`<p class="quiet">${plural(rollback.unseen, "call")} since then may have changed files of which nothing is known, such as commands.</p>`}
</section>`;
