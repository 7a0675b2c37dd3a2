// A Markdown text that may still be growing: what has settled is drawn once, only its end again.

import { html, useEffect, useMemo, useRef } from "../lib/html.js";
import { highlight, rendered, settled } from "../lib/markdown.js";

/** Texts longer than this grow in pieces. */
const PIECES_FROM = 1500;

/** @param {{text: string, live?: boolean}} props */
export function Markdown({ text, live = false }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  const cuts = useRef(/** @type {number[]} */ ([]));
  let pieces = [text];
  if (live && text.length > PIECES_FROM) {
    const from = cuts.current.at(-1) ?? 0;
    const cut = settled(text, from);
    if (cut > from) cuts.current = [...cuts.current, cut];
    pieces = [0, ...cuts.current].map((start, at) => text.slice(start, cuts.current[at] ?? text.length));
  } else cuts.current = [];
  useEffect(() => {
    if (!live && own.current) highlight(own.current).catch(() => {});
  }, [text, live]);
  /** @param {MouseEvent} event */
  const clicked = (event) => {
    const button = event.target instanceof Element ? event.target.closest("button[data-copy]") : null;
    if (!button) return;
    const code = button.closest(".code")?.querySelector("code")?.textContent ?? "";
    navigator.clipboard.writeText(code).then(() => {
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  };
  return html`<div class="markdown" ref=${own} onClick=${clicked}>${pieces.map((piece, at) => html`<${Piece} key=${at} text=${piece} />`)}</div>`;
}

/** @param {{text: string}} props */
function Piece({ text }) {
  const safe = useMemo(() => rendered(text), [text]);
  return html`<div dangerouslySetInnerHTML=${{ __html: safe }}></div>`;
}
