// What has just happened in a conversation, for those who hear the page: one sentence at a time.

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { summary } from "../state/inbox.js";

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export function Told({ conversation }) {
  const [words, setWords] = useState("");
  const known = useRef(/** @type {Set<string> | null} */ (null));
  const open = conversation.open.value;
  const news = conversation.news.value;
  useEffect(() => {
    if (news) setWords(news);
  }, [news]);
  useEffect(() => {
    if (!conversation.asks.value) return;
    // What was open when the page was opened is read where it stands.
    const fresh = known.current ? open.filter((one) => !known.current?.has(one.id)) : [];
    known.current = new Set([...(known.current ?? []), ...open.map((one) => one.id)]);
    if (fresh.length > 0) setWords(`The agent asks: ${fresh.map(summary).join(" ")}`);
  }, [open, conversation.asks.value]);
  return html`<p class="hidden" role="status" data-key="told">${words}</p>`;
}
