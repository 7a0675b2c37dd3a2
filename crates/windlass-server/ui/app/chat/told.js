// What has just happened in a conversation, for those who hear the page. Each piece of news is an element of its own:
// words that stand there already are not heard a second time.

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { summary } from "../state/interrupts.js";

/** Pieces of news that stay, so that what comes together is heard together. */
const KEPT = 3;
/** How long they stay: whoever walks over the page later finds no old ones. */
const STAYS_MS = 5000;

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export function Told({ conversation }) {
  const [told, setTold] = useState(/** @type {{number: number, words: string}[]} */ ([]));
  const known = useRef(/** @type {Set<string> | null} */ (null));
  const open = conversation.open.value;
  const news = conversation.news.value;
  const uploads = conversation.sending.all.value.map((one) => one.state).filter(Boolean).join(" ");
  /** @param {string} words */
  const tell = (words) => setTold((all) => [...all, { number: (all.at(-1)?.number ?? 0) + 1, words }].slice(-KEPT));
  useEffect(() => {
    if (news) tell(news.words);
  }, [news]);
  useEffect(() => {
    if (uploads) tell(uploads);
  }, [uploads]);
  useEffect(() => {
    if (told.length === 0) return undefined;
    const timer = setTimeout(() => setTold([]), STAYS_MS);
    return () => clearTimeout(timer);
  }, [told]);
  useEffect(() => {
    if (!conversation.asks.value) return;
    // What was open when the page was opened is read where it stands.
    const fresh = known.current ? open.filter((one) => !known.current?.has(one.id)) : [];
    known.current = new Set([...(known.current ?? []), ...open.map((one) => one.id)]);
    if (fresh.length > 0) tell(`The agent asks: ${fresh.map(summary).join(" ")}`);
  }, [open, conversation.asks.value]);
  return html`<div class="hidden" role="status" aria-atomic="false" data-key="told">${told.map((one) => html`<p key=${one.number}>${one.words}</p>`)}</div>`;
}
