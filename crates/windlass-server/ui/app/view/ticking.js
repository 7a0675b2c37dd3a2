// Ages and countdowns share one clock. The clock runs while the page is visible and shows at least one of them.

import { computed, html, signal, useEffect, useMemo } from "../lib/html.js";
import { ago, full, when } from "../lib/words.js";

const EVERY_MS = 1000;

/** The time of the last tick. */
export const now = signal(Date.now());
let users = 0;
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

const look = () => void (now.value = Date.now());

/** Starts or stops the clock. */
function wind() {
  const runs = users > 0 && !document.hidden;
  if (runs && timer === undefined) {
    look();
    timer = setInterval(look, EVERY_MS);
  }
  if (!runs && timer !== undefined) {
    clearInterval(timer);
    timer = undefined;
  }
}

/** Keeps the clock running. @returns {() => void} releases it */
export function keep() {
  users += 1;
  if (users === 1) document.addEventListener("visibilitychange", wind);
  wind();
  return () => {
    users -= 1;
    if (users === 0) document.removeEventListener("visibilitychange", wind);
    wind();
  };
}

/**
 * Returns a text that depends on the time. The component renders again only if the text changes.
 * @param {(now: number) => string} words @param {unknown[]} of its other dependencies
 */
export function useTicking(words, of) {
  useEffect(keep, []);
  return useMemo(() => {
    // The last tick may be outdated, because the clock may have been stopped.
    const begun = Date.now();
    return computed(() => words(Math.max(now.value, begun)));
  }, of).value;
}

/** Shows the age of a time. @param {{at: number}} props */
export const Ago = ({ at }) => html`<time class="quiet" title=${full(at)}>${useTicking((now) => ago(at, now), [at])}</time>`;

/** Shows a time in the short form of lists. @param {{at: number}} props */
export const When = ({ at }) => html`<time title=${full(at)}>${useTicking((now) => when(at, now), [at])}</time>`;

/** Shows a text that is updated with the clock. @param {{words: (now: number) => string, of: unknown[]}} props */
export const Ticking = ({ words, of }) => useTicking(words, of);
