// Entries in blocks: only blocks near the viewport are rendered; the other blocks are empty boxes of the same height.
// (ZE-S9)

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { EntryView } from "./entry.js";

/** Number of entries per block. */
const BLOCK = 8;
/** Distance outside the viewport within which blocks are rendered, in pixels. */
const AHEAD_PX = 1500;
/** Estimated height of an entry that was never rendered, in pixels. */
const GUESS_PX = 120;

/** @typedef {import("../state/entry.js").Entry} Entry */

/**
 * Cuts the entries into blocks. Keys count from the start of the first page, so that older entries get negative keys
 * and the keys of other blocks do not change.
 * @param {Entry[]} entries @param {number} prepended
 */
export function cut(entries, prepended) {
  /** @type {{key: number, entries: Entry[]}[]} */
  const blocks = [];
  for (let start = 0; start < entries.length; ) {
    const key = Math.floor((start - prepended) / BLOCK);
    const end = Math.min(entries.length, (key + 1) * BLOCK + prepended);
    blocks.push({ key, entries: entries.slice(start, end) });
    start = end;
  }
  return blocks;
}

/**
 * Calls back when an element comes near the viewport or leaves it. It reports visible elements immediately and the
 * other elements one per frame, so that scrolling never waits for many elements to render.
 */
export class Watch {
  /** @param {Element} root */
  constructor(root) {
    /** @type {Map<Element, (near: boolean) => void>} */
    this.heard = new Map();
    /** @type {Set<Element>} */
    this.coming = new Set();
    this.frame = 0;
    this.observer = new IntersectionObserver((seen) => this.see(seen), { root, rootMargin: `${AHEAD_PX}px 0px` });
  }

  /** @param {IntersectionObserverEntry[]} seen */
  see(seen) {
    for (const { target, isIntersecting, boundingClientRect: own, rootBounds } of seen) {
      const inside = rootBounds && own.bottom > rootBounds.top + AHEAD_PX && own.top < rootBounds.bottom - AHEAD_PX;
      this.coming.delete(target);
      if (isIntersecting && !inside) this.coming.add(target);
      else this.heard.get(target)?.(isIntersecting);
    }
    if (this.coming.size > 0) this.frame ||= requestAnimationFrame(() => this.next());
  }

  next() {
    this.frame = 0;
    const [first] = this.coming;
    if (!first) return;
    this.coming.delete(first);
    this.heard.get(first)?.(true);
    this.frame = requestAnimationFrame(() => this.next());
  }

  /** @param {Element} element @param {(near: boolean) => void} hear */
  add(element, hear) {
    this.heard.set(element, hear);
    this.observer.observe(element);
    return () => {
      this.heard.delete(element);
      this.coming.delete(element);
      this.observer.unobserve(element);
    };
  }

  end() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }
}

/**
 * @param {{entries: Entry[], watch: () => Watch | null, scroller: {current: HTMLElement | null}, isEnd: boolean, onFork: any, onBack: any, conversation: any}} props
 * `isEnd`: the last blocks are always rendered, because they change most.
 */
export function Block({ entries, watch, scroller, isEnd, onFork, onBack, conversation }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  const [isNear, setNear] = useState(isEnd);
  const height = useRef(0);
  // A block with an open form stays rendered, so that no input is lost.
  const isDrawn = isNear || isEnd || Boolean(own.current?.querySelector("form"));
  useEffect(() => {
    const element = own.current;
    return element ? watch()?.add(element, (near) => {
      if (!near) height.current = element.offsetHeight;
      setNear(near);
    }) : undefined;
  }, []);
  // The visible text must not move if a block above the viewport changes its height.
  useLayoutEffect(() => {
    const element = own.current;
    const window = scroller.current;
    if (!isDrawn || !element || !window || height.current === 0) return;
    const off = element.offsetHeight - height.current;
    if (off !== 0 && element.offsetTop + height.current <= window.scrollTop) window.scrollTop += off;
  }, [isDrawn]);
  if (!isDrawn) height.current ||= entries.length * GUESS_PX;
  return html`<div ref=${own} class="block" style=${isDrawn ? {} : { height: `${height.current}px` }}>
    ${isDrawn && entries.map((entry) => html`<${EntryView} key=${entry.key} entry=${entry} onFork=${onFork} onBack=${onBack} conversation=${conversation} />`)}
  </div>`;
}

/**
 * Renders the blocks. A block with the same entries reuses its node, so that Preact does not compare the block again.
 * @param {any} props the props of a block, with all `entries` and `prepended`
 */
export function Blocks({ entries, prepended, ...rest }) {
  const known = useRef(/** @type {Map<number, {entries: Entry[], isEnd: boolean, node: any}>} */ (new Map()));
  const shared = useMemo(() => rest, Object.values(rest));
  const before = useRef(shared);
  if (before.current !== shared) known.current.clear();
  before.current = shared;
  const blocks = cut(entries, prepended);
  return blocks.map((block, at) => {
    const isEnd = at >= blocks.length - 2;
    const old = known.current.get(block.key);
    const same = old && old.isEnd === isEnd && old.entries.length === block.entries.length && old.entries[0] === block.entries[0];
    if (same) return old.node;
    const node = html`<${Block} key=${block.key} entries=${block.entries} isEnd=${isEnd} ...${shared} />`;
    known.current.set(block.key, { entries: block.entries, isEnd, node });
    return node;
  });
}
