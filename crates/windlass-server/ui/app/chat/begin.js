// The page of a new conversation: the composer and suggestions. (SK-U15)

import { post } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { go } from "../lib/route.js";
import { forget, upload } from "../state/outgoing.js";
import { me, mayRun } from "../state/session.js";
import { refresh } from "../state/threads.js";
import { Composer } from "./composer.js";

const SUGGESTIONS = [
  ["Write a draft", "Draft a one-page project plan as plan.md. Ask me what you need to know first."],
  ["Summarize", "Summarize the attached file: the main points, and what is missing."],
  ["Plan first", "Make a step-by-step plan for this task, then wait for my approval."],
  ["What can you do?", "Which tools do you have, and what would you use each for?"],
];

export function Begin() {
  /** The message whose files are being uploaded, and the progress. */
  const [sending, setSending] = useState(/** @type {{text: string, state: string} | null} */ (null));
  /** @param {import("./composer.js").Draft} draft */
  const send = async (draft) => {
    try {
      const attached = await upload(draft.files, (state) => draft.files.length > 0 && setSending({ text: draft.text, state }));
      const sent = await post("/runs", { message: draft.text, ...draft.options, ...attached }, { once: draft.key });
      await forget(draft.files);
      refresh();
      go(`/chat/${sent.thread}`);
    } finally {
      setSending(null);
    }
  };
  const name = (me.value?.name ?? "").split(" ")[0];
  return html`<div class="begin">
    <div class="hello">
      <h1>${name && name !== "Local" ? `What would you like to do, ${name}?` : "What would you like to do?"}</h1>
      <p>Windlass works through a task step by step. It asks before it makes changes, and resumes after an interruption.</p>
    </div>
    <div class="hidden" role="status">${sending?.state}</div>
    ${sending && html`<article class="entry user" data-status="sending"><div class="said">${sending.text}</div><p class="quiet">${sending.state}</p></article>`}
    ${mayRun.value
      ? html`<${Composer} name="new" onSend=${send} leaves autofocus />
          <div class="suggestions" role="group" aria-label="Suggestions">
            ${SUGGESTIONS.map(([title, text]) => html`<button type="button" onClick=${() => fill(text)}><strong>${title}</strong><span>${text}</span></button>`)}
          </div>`
      : html`<p class="empty">Your role is view-only, so you cannot start runs. An administrator can change your role.</p>`}
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
