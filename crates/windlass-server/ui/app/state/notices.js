// Notices above the page: errors, warnings and confirmations.

import { isAborted, told } from "../lib/api.js";
import { signal } from "../lib/html.js";
import { sentence } from "../lib/words.js";

/** @typedef {{id: number, kind: "error" | "done", title: string, hint: string, details?: string[]}} Notice */

/** @type {import("../../vendor/signals.js").Signal<Notice[]>} */
export const notices = signal([]);
let last = 0;
/** Time for which a notice is shown, in milliseconds. An error takes longer to read. */
const SHOWN_MS = { done: 8000, error: 20_000 };
/** @type {Map<number, ReturnType<typeof setTimeout>>} */
const timers = new Map();

/** @param {Omit<Notice, "id">} notice */
function show(notice) {
  const id = (last += 1);
  notices.value = [...notices.value.slice(-3), { id, ...notice }];
  resume(id);
}

/** @param {number} id */
export function dismiss(id) {
  hold(id);
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

/** Keeps a notice while the pointer is over it or the focus is in it. @param {number} id */
export function hold(id) {
  clearTimeout(timers.get(id));
  timers.delete(id);
}

/** Dismisses a notice after its time. @param {number} id */
export function resume(id) {
  hold(id);
  const notice = notices.value.find((one) => one.id === id);
  if (notice) timers.set(id, setTimeout(() => dismiss(id), SHOWN_MS[notice.kind]));
}

/** @param {string} title */
export const done = (title) => show({ kind: "done", title, hint: "" });

/**
 * Shows a warning.
 * @param {string} title @param {string[]} [details] lines that are shown on request
 */
export const warn = (title, details = []) => show({ kind: "error", title: sentence(title), hint: "", details });

/** Shows an error. Ignores the error of an aborted request. @param {unknown} error */
export function failed(error) {
  if (isAborted(error)) return;
  console.error(error);
  const { title, hint } = told(error);
  show({ kind: "error", title: sentence(title), hint: sentence(hint) });
}

/** Runs an action and shows its error. @template T @param {() => Promise<T>} act @returns {Promise<T | undefined>} */
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    failed(error);
    return undefined;
  }
}
