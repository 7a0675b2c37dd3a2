// HTML that a tool returned, in a frame without scripts, forms, windows or a way out, which fetches nothing.
//
// The frame has the page's origin, so that the page can dress it: the page's policy refuses styles that stand in a
// text, and lets those be that a script sets. What has no scripts gains nothing by its origin; that no address is asked
// with somebody's session, a policy sees to that stands before all else in the frame's text.

import { html, useMemo, useRef, useState } from "../lib/html.js";
import { framed } from "../lib/markdown.js";

/** How much of the window it takes at most before somebody asks for more. */
const SHARE = 0.6;
/** How high it is at least and at most, in pixels. */
const LEAST_PX = 48;
const MOST_PX = 20_000;

/** Gives a document the styles that it names itself. @param {any} own the window of a frame */
function dress(own) {
  const { document } = own;
  document.adoptedStyleSheets = [...document.querySelectorAll("style")].map((style) => {
    const sheet = new own.CSSStyleSheet({ media: style.media });
    // A sheet that is made so takes no `@import`.
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
    // It is as high as what it holds, not as the frame was; what it is in stays so long, else that would be scrolled.
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
  return html`<iframe ref=${own} class="frame" sandbox="allow-same-origin" referrerpolicy="no-referrer" title="HTML that a tool returned" srcdoc=${safe} onLoad=${loaded}></iframe>
    ${more && html`<button type="button" class="plain" aria-pressed=${large} onClick=${toggle}>Larger</button>`}`;
}
