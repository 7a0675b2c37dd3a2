// Which place is shown: the address, and going elsewhere without loading the page anew.

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
    // Somebody cut an address in the middle of a sign: there is no such place, and the page says so.
    return part;
  }
}

export const place = signal(read());
/** How often somebody went to another place: what is shown then is new to them, and begins at its top. */
export const arrivals = signal(0);

/** Goes to an address of this page. @param {string} address @param {{replace?: boolean}} [how] */
export function go(address, how = {}) {
  const before = place.value.path;
  if (how.replace) history.replaceState(null, "", address);
  else if (address !== location.pathname + location.search) history.pushState(null, "", address);
  place.value = read();
  if (place.value.path !== before) arrivals.value += 1;
}

/** Starts to follow the address. */
export function begin() {
  addEventListener("popstate", () => (place.value = read()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || /^\/(api|auth|ui)\//.test(link.pathname)) return;
    // To a part of this page the browser goes by itself.
    if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
