// What is said to a person beside the page: what went wrong, and what was done.

import { isAborted, told } from "../lib/api.js";
import { signal } from "../lib/html.js";

/** @typedef {{id: number, kind: "error" | "done", title: string, hint: string}} Notice */

/** @type {import("../../vendor/signals.js").Signal<Notice[]>} */
export const notices = signal([]);
let last = 0;
const SHOWN_MS = 8000;

/** @param {Omit<Notice, "id">} notice */
function show(notice) {
  const id = (last += 1);
  notices.value = [...notices.value.slice(-3), { id, ...notice }];
  // Nobody has to read as fast as something goes wrong.
  if (notice.kind === "done") setTimeout(() => dismiss(id), SHOWN_MS);
}

/** @param {number} id */
export const dismiss = (id) => (notices.value = notices.value.filter((notice) => notice.id !== id));

/** @param {string} title */
export const done = (title) => show({ kind: "done", title, hint: "" });

/** Says that something is not as it should be, although nothing failed here. @param {string} title */
export const warn = (title) => show({ kind: "error", title, hint: "" });

/** Says what went wrong; that somebody left is nothing wrong. @param {unknown} error */
export function failed(error) {
  if (isAborted(error)) return;
  console.error(error);
  show({ kind: "error", ...told(error) });
}

/** Does something and says what went wrong with it. @template T @param {() => Promise<T>} act @returns {Promise<T | undefined>} */
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    failed(error);
    return undefined;
  }
}
