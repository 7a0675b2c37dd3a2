// Which place is shown: the address, and going elsewhere without loading the page anew.

import { signal } from "./html.js";

/** @typedef {{path: string, parts: string[], query: URLSearchParams}} Place */

/** @returns {Place} */
const read = () => ({
  path: location.pathname,
  parts: location.pathname.split("/").filter(Boolean).map(decodeURIComponent),
  query: new URLSearchParams(location.search),
});

export const place = signal(read());

/** Goes to an address of this page. @param {string} address @param {{replace?: boolean}} [how] */
export function go(address, how = {}) {
  if (how.replace) history.replaceState(null, "", address);
  else if (address !== location.pathname + location.search) history.pushState(null, "", address);
  place.value = read();
}

/** Starts to follow the address. */
export function begin() {
  addEventListener("popstate", () => (place.value = read()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || /^\/(api|auth|ui)\//.test(link.pathname)) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
