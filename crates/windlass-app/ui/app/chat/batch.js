// Several calls that wait at once: all of them answered with one word. (SK-U5)

import { html, useState } from "../lib/html.js";
import { answerAll } from "../state/inbox.js";
import { attempt, failed } from "../state/notices.js";
import { goOn } from "../view/asks.js";

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export function BatchBar({ conversation }) {
  const [busy, setBusy] = useState(false);
  const calls = conversation.open.value.filter((open) => ["approval", "hook"].includes(open.kind) && open.counts);
  if (calls.length < 2) return null;
  /** @param {string} kind */
  const all = (kind) => async () => {
    setBusy(true);
    const problems = await attempt(() => answerAll(calls.map((open) => ({ open, answer: { kind } }))));
    problems?.forEach(failed);
    conversation.ask();
    setBusy(false);
    goOn();
  };
  return html`<section class="batch row" aria-label="All calls that wait">
    <span class="fill"><strong>${calls.length} calls</strong> wait: ${[...new Set(calls.map((open) => open.tool))].join(", ")}</span>
    <button type="button" disabled=${busy} onClick=${all("deny")}>Deny all</button>
    <button type="button" class="primary" disabled=${busy} onClick=${all("approve")}>Approve all</button>
  </section>`;
}
