// A Markdown text that may still be streaming: its settled pieces are rendered once, only the end is rendered again.

import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { highlight, rendered, settled } from "../lib/markdown.js";
import { failed } from "../state/notices.js";

/** Minimum length of a piece, in characters. */
const PIECE = 1500;
/**
 * Maximum length of a complete text that is rendered in one piece, in characters: link references work only within one
 * piece.
 */
const WHOLE = 16000;
/** Number of characters of an unsettled end per millisecond between two renderings: 10,000 characters mean 100 ms. */
const CHARS_OF_A_MS = 100;

/** @param {{text: string, live?: boolean}} props */
export function Markdown({ text, live = false }) {
  const done = useRef(/** @type {{until: number, nodes: any[]}} */ ({ until: 0, nodes: [] }));
  if (!live && text.length <= WHOLE) done.current = { until: 0, nodes: [] };
  else {
    for (;;) {
      const { until, nodes } = done.current;
      const cut = settled(text, until, PIECE);
      if (cut === 0) break;
      // Preact does not compare a node that is the same object as before.
      nodes.push(html`<${Piece} key=${nodes.length} text=${text.slice(until, cut)} live=${false} />`);
      done.current.until = cut;
    }
  }
  const { until, nodes } = done.current;
  /** @param {MouseEvent} event */
  const clicked = (event) => {
    const button = event.target instanceof Element ? event.target.closest("button[data-copy]") : null;
    if (!button) return;
    const code = button.closest(".code")?.querySelector("code")?.textContent ?? "";
    navigator.clipboard.writeText(code).then(() => {
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    }, failed);
  };
  return html`<div class="markdown" onClick=${clicked}>${nodes}<${Piece} key=${nodes.length} text=${text.slice(until)} live=${live} /></div>`;
}

/** @param {{text: string, live: boolean}} props */
function Piece({ text, live }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = useSlowly(text, live ? text.length / CHARS_OF_A_MS : 0);
  const safe = useMemo(() => rendered(shown), [shown]);
  // The code of settled pieces is highlighted while the rest is still streaming.
  useEffect(() => {
    if (!live && own.current) highlight(own.current).catch(() => {});
  }, [safe, live]);
  return html`<div ref=${own} dangerouslySetInnerHTML=${{ __html: safe }}></div>`;
}

/** Throttles a changing text. @param {string} text @param {number} ms */
function useSlowly(text, ms) {
  const shown = useRef(text);
  const at = useRef(0);
  const [, again] = useState(0);
  const left = at.current + ms - performance.now();
  if (left <= 0 || ms === 0) {
    if (shown.current !== text) at.current = performance.now();
    shown.current = text;
  }
  useEffect(() => {
    if (shown.current === text) return undefined;
    const timer = setTimeout(() => again((count) => count + 1), left);
    return () => clearTimeout(timer);
  }, [text]);
  return shown.current;
}
