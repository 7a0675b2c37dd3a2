// Announcements of a conversation for screen readers. Each announcement is a separate element, because a screen reader
// does not repeat text that the page already contains.

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { summary } from "../state/interrupts.js";

/** Number of announcements that the page keeps, so that a screen reader reads all simultaneous announcements. */
const KEPT = 3;
/**
 * Time for which the page keeps announcements, in milliseconds: a user who navigates the page later must not find old
 * announcements.
 */
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
    // Do not announce interrupts that were open before the page was opened.
    const fresh = known.current ? open.filter((one) => !known.current?.has(one.id)) : [];
    known.current = new Set([...(known.current ?? []), ...open.map((one) => one.id)]);
    if (fresh.length > 0) tell(`Input needed: ${fresh.map(summary).join(" ")}`);
  }, [open, conversation.asks.value]);
  return html`<div class="hidden" role="status" aria-atomic="false" data-key="told">${told.map((one) => html`<p key=${one.number}>${one.words}</p>`)}</div>`;
}
