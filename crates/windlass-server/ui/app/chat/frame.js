// HTML that a tool returned, in a frame without scripts, forms, popups or navigation. The frame fetches nothing.
//
// The frame has the page's origin, so that the page can apply its styles: the content security policy blocks inline
// styles, but allows styles set by a script. The origin is harmless without scripts. A policy at the start of the frame's
// document prevents requests with the user's session.

import { html, useMemo, useRef, useState } from "../lib/html.js";
import { framed } from "../lib/markdown.js";

/** Maximum fraction of the window's height that the frame occupies, unless the user expands it. */
const SHARE = 0.6;
/** Minimum and maximum height of the frame, in pixels. */
const LEAST_PX = 48;
const MOST_PX = 20_000;

/** Applies the styles of a document's own style elements and attributes. @param {any} own the window of a frame */
function dress(own) {
  const { document } = own;
  document.adoptedStyleSheets = [...document.querySelectorAll("style")].map((style) => {
    const sheet = new own.CSSStyleSheet({ media: style.media });
    // A constructed style sheet ignores `@import`.
    sheet.replaceSync(style.textContent);
    return sheet;
  });
  for (const one of document.querySelectorAll("[style]")) one.style.cssText = one.getAttribute("style");
}

/** @param {{text: string}} props */
export function Frame({ text }) {
  const safe = useMemo(() => framed(text), [text]);
  const own = useRef(/** @type {HTMLIFrameElement | null} */ (null));
  const dressed = useRef(/** @type {Document | null} */ (null));
  const [large, setLarge] = useState(false);
  const [more, setMore] = useState(false);
  /** @param {boolean} large */
  const fit = (large) => {
    const frame = own.current;
    const page = frame?.contentDocument;
    if (!frame || !page?.body) return;
    // With a height of 0, the content reports its real height. Meanwhile, the margin keeps the page from scrolling.
    frame.style.marginBottom = `${frame.offsetHeight}px`;
    frame.style.height = "0";
    const [whole, most] = [page.documentElement.scrollHeight + 2, Math.round(innerHeight * SHARE)];
    frame.style.height = `${Math.max(LEAST_PX, Math.min(whole, large ? MOST_PX : most))}px`;
    frame.style.marginBottom = "";
    setMore(whole > most);
  };
  const loaded = () => {
    const page = own.current?.contentDocument;
    if (!page?.head || page.URL !== "about:srcdoc" || dressed.current === page) return;
    dressed.current = page;
    dress(own.current?.contentWindow);
    fit(large);
  };
  const toggle = () => {
    setLarge(!large);
    fit(!large);
  };
  return html`<iframe ref=${own} class="frame" sandbox="allow-same-origin" referrerpolicy="no-referrer" title="HTML returned by a tool" srcdoc=${safe} onLoad=${loaded}></iframe>
    ${more && html`<button type="button" class="plain" aria-pressed=${large} onClick=${toggle}>Expand</button>`}`;
}
