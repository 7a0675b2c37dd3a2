// Keyboard navigation through the open interrupts of the page. When the user answers an interrupt, the focus moves to
// the next one, but the same key press never answers the next one, too.

import { place } from "../lib/route.js";

/**
 * Time for which keys are ignored after the focus has moved, in milliseconds: the user may have meant the previous
 * interrupt.
 */
const SETTLES_MS = 500;
/** Time at which the focus last moved automatically. */
let wentOn = -Infinity;
/** The interrupt that was clicked last. @type {Element | null} */
let clicked = null;

/** Returns all visible interrupts in page order. @returns {HTMLElement[]} */
const asks = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".ask"))].filter((one) => one.getClientRects().length > 0);

/** Returns the focused interrupt, or null. @returns {HTMLElement | null} */
const held = () => document.activeElement?.closest(".ask") ?? null;

/**
 * Returns the button that a letter presses in the focused interrupt. Returns null until the user has had time to see
 * the interrupt.
 * @param {string} key
 */
export function answerOf(key) {
  if (performance.now() - wentOn < SETTLES_MS) return null;
  return held()?.querySelector(`[data-key="${key}"]`) ?? null;
}

/** Moves the focus by a number of interrupts. @param {number} by 0: to the first */
export function walk(by) {
  const all = asks();
  const now = held();
  const at = now && by !== 0 ? all.indexOf(now) + by : 0;
  const next = all[Math.max(0, Math.min(at, all.length - 1))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/**
 * Moves the focus from a button, which is about to be disabled, to the button's interrupt.
 * @param {HTMLElement | null} own
 */
export function hold(own) {
  if (own?.contains(document.activeElement)) own.focus({ preventScroll: true });
}

/** Called when an interrupt leaves the page: moves the focus to the next interrupt. @param {HTMLElement} own */
export function leave(own) {
  if (own.contains(document.activeElement)) goOn(asks().indexOf(own));
}

/**
 * If no element has the focus, focuses the interrupt at an index, or else the composer or the page's heading.
 * @param {number} [at]
 */
export function goOn(at = 0) {
  const { path } = place.value;
  requestAnimationFrame(() => {
    if (document.activeElement !== document.body || place.value.path !== path) return;
    const all = asks();
    const next = all[Math.min(at, all.length - 1)];
    if (next) {
      wentOn = performance.now();
      next.focus();
    } else rest();
  });
}

/** Focuses the composer, or the heading on a touch device, where a field would open the keyboard. */
function rest() {
  const field = matchMedia("(hover: hover)").matches ? document.querySelector("[data-key=composer]") : null;
  const next = field ?? document.querySelector("main h1");
  if (!(next instanceof HTMLElement)) return;
  if (!field) next.tabIndex = -1;
  next.focus({ preventScroll: true });
}

/** Blocks the second click of a double click if another interrupt has moved under the pointer. @param {MouseEvent} event */
export function onlyMeant(event) {
  const own = event.currentTarget instanceof Element ? event.currentTarget : null;
  if (event.detail > 1 && clicked !== own) {
    event.preventDefault();
    event.stopPropagation();
  } else clicked = own;
}
