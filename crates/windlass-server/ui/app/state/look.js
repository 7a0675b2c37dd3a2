// How the page looks to this person: kept in their browser, since it is a matter of their screen.

import { effect, signal } from "../lib/html.js";

/** @typedef {"auto" | "light" | "dark"} Theme */

/** @param {string} name @param {string} usual */
function kept(name, usual) {
  let value = usual;
  try {
    value = localStorage.getItem(`windlass.${name}`) ?? usual;
  } catch {
    // A browser that keeps nothing shows the usual.
  }
  const own = signal(value);
  own.subscribe((value) => {
    try {
      localStorage.setItem(`windlass.${name}`, value);
    } catch {
      // The same.
    }
  });
  return own;
}

export const theme = kept("theme", "auto");
export const density = kept("density", "comfortable");
export const sendBy = kept("send", "enter");
/** Whether single letters are shortcuts: whoever speaks to their computer has none of them. (WCAG 2.1.4) */
export const letters = kept("letters", "on");
export const sidebar = kept("sidebar", "open");
export const usageRange = kept("range", "24h");
/** Of the range "custom", in UTC, as a field of a time has them. */
export const usageFrom = kept("range.from", "");
export const usageUntil = kept("range.until", "");

/** Applies it to the page. */
export function begin() {
  // On a phone the sidebar is above the page: it opens when somebody wants it.
  if (matchMedia("(max-width: 760px)").matches) sidebar.value = "closed";
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
    document.documentElement.dataset.density = density.value;
  });
}
