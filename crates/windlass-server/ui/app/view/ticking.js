// Ages and countdowns, all by one clock: it runs while one of them is shown and the page is visible.

import { computed, html, signal, useEffect, useMemo } from "../lib/html.js";
import { ago, full, when } from "../lib/words.js";

const EVERY_MS = 1000;

/** The time as the page shows it. */
export const now = signal(Date.now());
let users = 0;
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

const look = () => void (now.value = Date.now());

/** Starts the clock or stops it. */
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

/** Has the clock run. @returns {() => void} what ends that */
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

/** Words that change with the time; a component that shows them is redrawn only if they change. @param {(now: number) => string} words @param {unknown[]} of what else they depend on */
export function useTicking(words, of) {
  useEffect(keep, []);
  return useMemo(() => {
    // The clock may have stood for long.
    const begun = Date.now();
    return computed(() => words(Math.max(now.value, begun)));
  }, of).value;
}

/** How long ago something was. @param {{at: number}} props */
export const Ago = ({ at }) => html`<time class="quiet" title=${full(at)}>${useTicking((now) => ago(at, now), [at])}</time>`;

/** When something was, as short as in a list. @param {{at: number}} props */
export const When = ({ at }) => html`<time title=${full(at)}>${useTicking((now) => when(at, now), [at])}</time>`;

/** A text that is updated as time passes. @param {{words: (now: number) => string, of: unknown[]}} props */
export const Ticking = ({ words, of }) => useTicking(words, of);
