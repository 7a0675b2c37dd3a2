// The scrolling transcript: follows the end of the conversation, and otherwise keeps the visible text in place.

import { told } from "../lib/api.js";
import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { retrying } from "../lib/words.js";
import { Ticking } from "../view/ticking.js";
import { Blocks, Watch } from "./blocks.js";
import { Interrupts } from "./interrupts.js";

/** Distance above the viewport at which the next older page is loaded, in pixels. */
const AHEAD_PX = 3000;
/** Maximum distance from the end at which the view still follows new text, in pixels. (SK-U2) */
const NEAR_PX = 40;

/** @param {{conversation: import("../state/conversation.js").Conversation, onFork?: any, onBack?: any}} props */
export function Transcript({ conversation, onFork, onBack }) {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const top = useRef(/** @type {HTMLElement | null} */ (null));
  const watcher = useRef(/** @type {Watch | null} */ (null));
  const watch = useCallback(() => (watcher.current ??= scroller.current && new Watch(scroller.current)), []);
  const sticks = useRef(true);
  const [away, setAway] = useState(false);
  const height = useRef(0);
  const shown = useRef(0);
  const entries = conversation.entries.value;
  const { prepended } = conversation;

  // Scroll without animation: smooth scrolling never reaches an end that keeps moving.
  const down = () => scroller.current?.scrollTo({ top: scroller.current.scrollHeight, behavior: "instant" });
  // After a send, show the message and its reply.
  const sent = conversation.sending.all.value.at(-1)?.key;
  useLayoutEffect(() => {
    if (!sent) return;
    sticks.current = true;
    setAway(false);
    down();
  }, [sent]);
  // Older entries must not move the visible text. New entries are followed if the view is at the end.
  useLayoutEffect(() => {
    const own = scroller.current;
    if (!own) return;
    if (sticks.current) own.scrollTop = own.scrollHeight;
    else if (prepended > shown.current) own.scrollTop += own.scrollHeight - height.current;
    shown.current = prepended;
    height.current = own.scrollHeight;
  }, [entries]);
  useEffect(() => {
    const own = scroller.current;
    const inside = own?.firstElementChild;
    if (!own || !inside) return undefined;
    const grown = new ResizeObserver(() => {
      if (sticks.current) own.scrollTop = own.scrollHeight;
      height.current = own.scrollHeight;
    });
    grown.observe(inside);
    return () => {
      grown.disconnect();
      watcher.current?.end();
    };
  }, []);
  useEffect(() => {
    const older = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && conversation.older().catch(() => {}), { root: scroller.current, rootMargin: `${AHEAD_PX}px 0px` });
    if (top.current) older.observe(top.current);
    return () => older.disconnect();
  }, [conversation.ready.value, prepended]);

  const scrolled = () => {
    const own = scroller.current;
    if (!own) return;
    sticks.current = own.scrollHeight - own.scrollTop - own.clientHeight < NEAR_PX;
    setAway(!sticks.current);
  };
  const live = conversation.live.value !== null;
  const retry = conversation.open.value.length === 0 ? conversation.retry.value : null;
  const waits = conversation.isActive.value && !live && conversation.open.value.length === 0;
  return html`<div class="transcript" ref=${scroller} onScroll=${scrolled} role="region" tabindex="0" aria-label="Conversation">
    <div class="inside" aria-busy=${!conversation.ready.value || live}>
      <div ref=${top} class="end">${conversation.hasOlder.value && html`<${Older} conversation=${conversation} />`}</div>
      ${!conversation.ready.value && html`<div class="loading" aria-busy="true"><span class="spinner"></span></div>`}
      <${Blocks} entries=${entries} prepended=${prepended} conversation=${conversation} watch=${watch} scroller=${scroller} onFork=${onFork} onBack=${onBack} />
      ${conversation.sending.all.value.map((one) => html`<article class="entry user" key=${one.key} data-status="sending"><div class="said">${one.text}</div>${one.state && html`<p class="quiet">${one.state}</p>`}</article>`)}
      <${Interrupts} conversation=${conversation} />
      ${retry ? html`<p class="working retry"><span class="spinner"></span> <span><${Ticking} words=${(/** @type {number} */ now) => retrying(retry, now)} of=${[retry]} /></span></p>` : waits && html`<p class="working" role="status"><span class="spinner"></span> Running</p>`}
    </div>
    ${away && html`<button type="button" class="down" onClick=${down}>↓ Jump to latest</button>`}
  </div>`;
}

/**
 * A button that loads older messages, or the error of the last attempt.
 * @param {{conversation: import("../state/conversation.js").Conversation}} props
 */
function Older({ conversation }) {
  const failure = conversation.olderFailure.value;
  if (!failure) return html`<span class="spinner"></span>`;
  return html`<p role="alert">Cannot load older messages: ${told(failure).title}</p>
    <p><button type="button" onClick=${() => conversation.older().catch(() => {})}>Try again</button></p>`;
}
