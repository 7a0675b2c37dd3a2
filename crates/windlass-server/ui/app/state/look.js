// Preferences that depend on the user's device, kept in the browser's local storage.

import { effect, signal } from "../lib/html.js";

/** @typedef {"auto" | "light" | "dark"} Theme */

/** @param {string} name @param {string} usual */
function kept(name, usual) {
  let value = usual;
  try {
    value = localStorage.getItem(`windlass.${name}`) ?? usual;
  } catch {
    // Without local storage, the default applies.
  }
  const own = signal(value);
  own.subscribe((value) => {
    try {
      localStorage.setItem(`windlass.${name}`, value);
    } catch {
      // Without local storage the preference lasts until a reload.
    }
  });
  return own;
}

export const theme = kept("theme", "auto");
export const density = kept("density", "comfortable");
export const sendBy = kept("send", "enter");
/** Whether single letters are shortcuts: users of speech input must be able to turn the shortcuts off. (WCAG 2.1.4) */
export const letters = kept("letters", "on");
export const sidebar = kept("sidebar", "open");
export const usageRange = kept("range", "24h");
/** Start and end of the range "custom" in UTC, as values of a `datetime-local` field. */
export const usageFrom = kept("range.from", "");
export const usageUntil = kept("range.until", "");

/** Applies the preferences to the page. */
export function begin() {
  // On a phone the sidebar covers the page, so it starts closed.
  if (matchMedia("(max-width: 760px)").matches) sidebar.value = "closed";
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
    document.documentElement.dataset.density = density.value;
  });
}
