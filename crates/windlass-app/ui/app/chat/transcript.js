// What was said, drawn where it is looked at: blocks of entries far from the eye are empty boxes of their height.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { EntryView } from "./entry.js";
import { Interrupts } from "./interrupts.js";

/** Entries of a block. */
const BLOCK = 20;
/** How far beyond the window entries are drawn, in pixels. */
const AHEAD = 1500;
/** How near to the end counts as being there. (SK-U2) */
const NEAR_PX = 40;

/** @param {{conversation: import("../state/conversation.js").Conversation, onFork?: (entry: any, text?: string) => void}} props */
export function Transcript({ conversation, onFork }) {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const top = useRef(/** @type {HTMLElement | null} */ (null));
  const sticks = useRef(true);
  const [away, setAway] = useState(false);
  const height = useRef(0);
  const first = useRef("");
  const entries = conversation.entries.value;

  // What comes before what is shown moves nothing under the eye; what comes after is followed by whoever is at the end.
  useLayoutEffect(() => {
    const own = scroller.current;
    if (!own) return;
    const now = entries[0]?.key ?? "";
    if (first.current && now !== first.current && !sticks.current) own.scrollTop += own.scrollHeight - height.current;
    else if (sticks.current) own.scrollTop = own.scrollHeight;
    first.current = now;
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
    return () => grown.disconnect();
  }, []);
  useEffect(() => {
    const watcher = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && conversation.older(), { root: scroller.current, rootMargin: `${AHEAD}px` });
    if (top.current) watcher.observe(top.current);
    return () => watcher.disconnect();
  }, [conversation.ready.value, entries[0]?.key]);

  const scrolled = () => {
    const own = scroller.current;
    if (!own) return;
    sticks.current = own.scrollHeight - own.scrollTop - own.clientHeight < NEAR_PX;
    setAway(!sticks.current);
  };
  const down = () => scroller.current?.scrollTo({ top: scroller.current.scrollHeight, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  // Blocks are counted from the end of what came first, so that older pages leave them as they are.
  const blocks = cut(entries);
  const live = entries.at(-1)?.status === "live";
  const waits = conversation.isActive.value && !live && conversation.open.value.length === 0;
  return html`<div class="transcript" ref=${scroller} onScroll=${scrolled} tabindex="0" aria-label="Conversation">
    <div class="inside" role="log" aria-live="polite" aria-relevant="additions" aria-busy=${!conversation.ready.value || live}>
      <div ref=${top} class="end">${conversation.hasOlder.value && html`<span class="spinner"></span>`}</div>
      ${!conversation.ready.value && html`<div class="loading" aria-busy="true"><span class="spinner"></span></div>`}
      ${blocks.map((block) => html`<${Block} key=${block.key} entries=${block.entries} root=${scroller} onFork=${onFork} conversation=${conversation} isLast=${block.isLast} />`)}
      ${conversation.sending.value.map((one) => html`<article class="entry user" key=${one.key} data-status="sending"><div class="said">${one.text}</div></article>`)}
      <${Interrupts} conversation=${conversation} />
      ${waits && html`<p class="working" role="status"><span class="spinner"></span> at work</p>`}
    </div>
    ${away && html`<button type="button" class="down" onClick=${down}>↓ To the end</button>`}
  </div>`;
}

/** @param {import("../state/entry.js").Entry[]} entries */
function cut(entries) {
  /** @type {{key: string, entries: import("../state/entry.js").Entry[], isLast: boolean}[]} */
  const blocks = [];
  for (let end = entries.length - (entries.length % BLOCK || 0); end > 0; end -= BLOCK) {
    blocks.unshift({ key: entries[end - 1].key, entries: entries.slice(Math.max(0, end - BLOCK), end), isLast: false });
  }
  const rest = entries.slice(entries.length - (entries.length % BLOCK));
  if (rest.length > 0) blocks.push({ key: "last", entries: rest, isLast: true });
  if (blocks.length > 0) blocks[blocks.length - 1].isLast = true;
  return blocks;
}

/** @param {{entries: import("../state/entry.js").Entry[], root: any, onFork: any, conversation: any, isLast: boolean}} props */
function Block({ entries, root, onFork, conversation, isLast }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  const [near, setNear] = useState(true);
  const height = useRef(0);
  useEffect(() => {
    if (isLast) {
      setNear(true);
      return undefined;
    }
    const watcher = new IntersectionObserver(
      ([seen]) => {
        if (!seen.isIntersecting) height.current = seen.boundingClientRect.height || height.current;
        setNear(seen.isIntersecting);
      },
      { root: root.current, rootMargin: `${AHEAD}px` },
    );
    if (own.current) watcher.observe(own.current);
    return () => watcher.disconnect();
  }, [isLast, entries.length]);
  return html`<div ref=${own} class="block" style=${near ? {} : { height: `${height.current}px` }}>
    ${near && entries.map((entry) => html`<${EntryView} key=${entry.key} entry=${entry} onFork=${onFork} conversation=${conversation} />`)}
  </div>`;
}
