// The router: the current address, and navigation without a page load.

import { signal } from "./html.js";

/** @typedef {{path: string, parts: string[], query: URLSearchParams}} Place */

/** @returns {Place} */
const read = () => ({
  path: location.pathname,
  parts: location.pathname.split("/").filter(Boolean).map(decoded),
  query: new URLSearchParams(location.search),
});

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    // The address ends inside an escape, so it matches no page.
    return part;
  }
}

export const place = signal(read());
/** Number of navigations to another path. After each navigation, the new page starts at its top. */
export const arrivals = signal(0);

/** Navigates to an address of this app. @param {string} address @param {{replace?: boolean}} [how] */
export function go(address, how = {}) {
  const before = place.value.path;
  if (how.replace) history.replaceState(null, "", address);
  else if (address !== location.pathname + location.search) history.pushState(null, "", address);
  place.value = read();
  if (place.value.path !== before) arrivals.value += 1;
}

/** Starts to follow the browser's history and clicks on links. */
export function begin() {
  addEventListener("popstate", () => (place.value = read()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || /^\/(api|auth|ui)\//.test(link.pathname)) return;
    // Let the browser handle links within the page.
    if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
