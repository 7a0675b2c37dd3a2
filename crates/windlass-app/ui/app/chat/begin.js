// A conversation that has not begun: one field, and what one could ask. (SK-U15)

import { post, put, query } from "../lib/api.js";
import { html } from "../lib/html.js";
import { go } from "../lib/route.js";
import { me, mayRun } from "../state/session.js";
import { load } from "../state/threads.js";
import { Composer } from "./composer.js";

const SUGGESTIONS = [
  ["Look around", "List the files in this folder and say what they are for."],
  ["Sum up", "Read data.csv in this folder and write three insights to insights.md"],
  ["Plan first", "Make a plan of what is to be done here, as a list, and wait for my word."],
  ["What can you do?", "Which tools do you have, and what would you use each for?"],
];

/** The page. */
export function Begin() {
  /** @param {import("./composer.js").Draft} draft */
  const send = async (draft) => {
    const files = draft.files;
    for (const file of files) await put(`/files/${encodeURIComponent(file.name)}`, undefined, { raw: file });
    const attachments = files.map((file) => ({ upload: file.name }));
    const sent = await post("/runs", { message: draft.text, ...draft.options, ...(attachments.length > 0 ? { attachments } : {}) }, { once: draft.key });
    load();
    go(`/chat/${sent.thread}${query({})}`);
  };
  const name = (me.value?.name ?? "").split(" ")[0];
  return html`<div class="begin">
    <div class="hello">
      <h1>${name && name !== "Local" ? `What shall be done, ${name}?` : "What shall be done?"}</h1>
      <p>Windlass carries a task out step by step. It asks before it changes something, and goes on wherever it was stopped.</p>
    </div>
    ${mayRun.value
      ? html`<${Composer} name="new" onSend=${send} leaves autofocus />
          <div class="suggestions" role="group" aria-label="Suggestions">
            ${SUGGESTIONS.map(([title, text]) => html`<button type="button" onClick=${() => fill(text)}><strong>${title}</strong><span>${text}</span></button>`)}
          </div>`
      : html`<p class="empty">You may look at what others do here, and not start anything. An administrator can change that.</p>`}
  </div>`;
}

/** @param {string} text */
function fill(text) {
  const field = document.querySelector('[data-key="composer"]');
  if (!(field instanceof HTMLTextAreaElement)) return;
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
}
