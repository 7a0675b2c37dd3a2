// Reasoning of the model: open while it streams, then collapsed under its duration. (SK-U3)

import { html, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { length } from "../lib/words.js";

/** Maximum length of a thought that is initially shown completely, in characters. */
const LONG = 300;
/** Number of characters at the end of a streaming thought that are rendered. */
const TAIL = 2000;
/** Minimum duration that is shown, in milliseconds. */
const LEAST_MS = 100;

/** @param {{part: import("../state/entry.js").Thought, live: boolean}} props */
export function Thought({ part, live }) {
  const { text } = part;
  const [open, setOpen] = useState(/** @type {boolean | null} */ (null));
  const [all, setAll] = useState(false);
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    if (live && own.current) own.current.scrollTop = own.current.scrollHeight;
  }, [text, live]);
  const head = live ? "Thinking…" : part.ms > LEAST_MS ? `Thought for ${length(part.ms)}` : "Thought";
  const isOpen = open ?? live;
  const isLong = !live && text.length > LONG;
  return html`<details class="thought" open=${isOpen} onToggle=${(/** @type {any} */ event) => event.target.open !== isOpen && setOpen(event.target.open)}>
    <summary>${head}</summary><p ref=${own} data-all=${all} tabindex=${isLong && all ? "0" : undefined}>${live ? text.slice(-TAIL) : text}</p>
    ${isLong && html`<button type="button" class="plain" onClick=${() => setAll(!all)}>${all ? "Show less" : "Show more"}</button>`}
  </details>`;
}
