// A popover menu behind a button with three dots. The browser closes it on a click outside, on Escape, and if another
// menu opens. The menu is in the top layer, so that no scrolling list clips it.

import { html, useEffect, useId, useRef } from "../lib/html.js";
import { Icon } from "./icon.js";

/** @param {{name: string, children?: any}} props */
export function Menu({ name, children }) {
  const id = useId();
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const close = () => list.current?.hidePopover();
  /** Places the menu above or below its button, on the side with more space. @param {any} event */
  const put = (event) => {
    stop.current.abort();
    const [own, of, at] = [list.current, button.current, button.current?.getBoundingClientRect()];
    if (event.newState !== "open" || !own || !of || !at) return;
    const isLow = at.bottom > innerHeight / 2;
    Object.assign(own.style, {
      right: `${document.documentElement.clientWidth - at.right}px`,
      top: isLow ? "auto" : `${at.bottom}px`,
      bottom: isLow ? `${innerHeight - at.top}px` : "auto",
    });
    // The menu does not scroll with its button, so it closes when the button moves.
    stop.current = new AbortController();
    const scrolled = () => of.getBoundingClientRect().top !== at.top && close();
    addEventListener("scroll", scrolled, { capture: true, passive: true, signal: stop.current.signal });
  };
  return html`<div class="menu">
    <button type="button" class="plain" ref=${button} aria-label=${name} popovertarget=${id}><${Icon} name="more" size=${15} /></button>
    <div popover="auto" id=${id} ref=${list} onBeforeToggle=${put} onClick=${close}>${children}</div>
  </div>`;
}
