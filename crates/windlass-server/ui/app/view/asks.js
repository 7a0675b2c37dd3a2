// What is asked on this page, as keys go from one to the next, and as the focus goes on when one is answered: never to
// one that is answered by the same stroke.

import { place } from "../lib/route.js";

/** How long a letter or a second click counts as meant for what stood there before. */
const SETTLES_MS = 500;
/** When the focus went to one by itself. */
let wentOn = -Infinity;
/** The one that was clicked last. @type {Element | null} */
let clicked = null;

/** All of them, in the order in which they stand there. @returns {HTMLElement[]} */
const asks = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".ask"))].filter((one) => one.getClientRects().length > 0);

/** The one that has the focus. @returns {HTMLElement | null} */
const held = () => document.activeElement?.closest(".ask") ?? null;

/** What a letter answers: the one that has the focus, once whoever presses it can have seen that. @param {string} key */
export function answerOf(key) {
  if (performance.now() - wentOn < SETTLES_MS) return null;
  return held()?.querySelector(`[data-key="${key}"]`) ?? null;
}

/** Goes to another one: so many further down, or from elsewhere to the first. @param {number} by 0: to the first */
export function walk(by) {
  const all = asks();
  const now = held();
  const at = now && by !== 0 ? all.indexOf(now) + by : 0;
  const next = all[Math.max(0, Math.min(at, all.length - 1))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** Keeps the focus where it is when what has it cannot be pressed any more. @param {HTMLElement | null} own */
export function hold(own) {
  if (own?.contains(document.activeElement)) own.focus({ preventScroll: true });
}

/** One leaves the page: if it has the focus, that goes on. @param {HTMLElement} own */
export function leave(own) {
  if (own.contains(document.activeElement)) goOn(asks().indexOf(own));
}

/** Gives the focus, where nothing has it, to what is asked in this place, to the field, or to the page. @param {number} [at] */
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

/** To where somebody writes, or to the name of the page: a field would bring up a phone's keyboard. */
function rest() {
  const field = matchMedia("(hover: hover)").matches ? document.querySelector("[data-key=composer]") : null;
  const next = field ?? document.querySelector("main h1");
  if (!(next instanceof HTMLElement)) return;
  if (!field) next.tabIndex = -1;
  next.focus({ preventScroll: true });
}

/** Stops the second click of two where what the first one was for is gone and another has slid into its place. @param {MouseEvent} event */
export function onlyMeant(event) {
  const own = event.currentTarget instanceof Element ? event.currentTarget : null;
  if (event.detail > 1 && clicked !== own) {
    event.preventDefault();
    event.stopPropagation();
  } else clicked = own;
}
