// "Try again": sends the messages of a run again. A failed or stopped run is retried in the same conversation, any
// other run in a new conversation.

import { isOpen } from "../lib/api.js";
import { html, useRef, useState } from "../lib/html.js";
import { saidIn, sayAgain, words } from "../state/again.js";
import { failed } from "../state/notices.js";

/**
 * The button. Only the newest run has the button, after the run has ended.
 * @param {{entry: import("../state/entry.js").Entry, conversation: import("../state/conversation.js").Conversation, onFork: import("./entry.js").OnFork}} props
 */
export function TryAgain({ entry, conversation, onFork }) {
  const [busy, setBusy] = useState(false);
  /** Keep the idempotency key while the server may have executed the first request. */
  const key = useRef("");
  if (conversation.isActive.value || conversation.newest.value !== entry.run) return null;
  const answered = entry.role === "assistant";
  const again = async () => {
    setBusy(true);
    key.current ||= crypto.randomUUID();
    try {
      if (answered) {
        const said = await saidIn(conversation, entry.run);
        if (said[0]) await onFork(said[0], words(said), said);
      } else await sayAgain(conversation, entry.run, key.current);
      key.current = "";
    } catch (error) {
      if (!isOpen(error)) key.current = "";
      failed(error);
    }
    setBusy(false);
  };
  const title = answered ? "Sends the same message in a new conversation" : "Sends the same message again";
  return html`<button type="button" class="plain" title=${title} disabled=${busy} onClick=${again}>Try again</button>`;
}
