// The list of conversations: newest activity first, with search, loaded page by page.

import { get, isAborted, patch, query, remove } from "../lib/api.js";
import { batch, signal } from "../lib/html.js";
import { failed } from "./notices.js";
import { mayNotify } from "./notify.js";

/** @typedef {{id: string, title: string | null, status: string, interrupts: number, head: number, owner: string, created_at: number, updated_at: number, forked_from: {thread: string, until: number} | null}} Thread */

/** Number of conversations per page. (SK-U11) */
const PAGE = 25;
const LOOK_AGAIN_MS = 15000;
/** Maximum number of reads per refresh: if the list changes during a read, the refresh reads again. */
const LOOKS = 3;

/** @type {import("../../vendor/signals.js").Signal<Thread[]>} */
export const threads = signal([]);
export const search = signal("");
export const loading = signal(false);
/** @type {import("../../vendor/signals.js").Signal<string | null>} */
const cursor = signal(null);
export const hasMore = signal(false);
/** Whether the last read failed: an empty list then does not mean that there are no conversations. */
export const isUnread = signal(false);
/** @type {AbortController | null} */
let request = null;
/** Whether to refresh after the current load. */
let isDue = false;

/** @param {boolean} more whether to load the next page */
export async function load(more = false) {
  if (more && (loading.value || !hasMore.value)) return;
  request?.abort();
  const own = (request = new AbortController());
  loading.value = true;
  try {
    const text = search.value.trim();
    const page = await get(
      `/threads${query({ limit: PAGE, cursor: more ? cursor.value : null, query: text.length >= 2 ? text : null })}`,
      { stop: own.signal },
    );
    show(page, more ? threads.value : []);
    isUnread.value = false;
  } catch (error) {
    if (!isAborted(error)) isUnread.value = true;
    failed(error);
  } finally {
    if (request === own) {
      loading.value = false;
      if (isDue) refresh();
    }
  }
}

/** @param {{data: Thread[], next_cursor?: string | null}} page @param {Thread[]} before the rows above the page */
function show(page, before) {
  batch(() => {
    threads.value = merged(before, page.data);
    cursor.value = page.next_cursor ?? null;
    hasMore.value = Boolean(page.next_cursor);
  });
}

/** @param {Thread[]} before @param {Thread[]} page */
function merged(before, page) {
  const ids = new Set(page.map((thread) => thread.id));
  return [...before.filter((thread) => !ids.has(thread.id)), ...page];
}

/**
 * Returns the loaded list with its first page replaced. If the page lacks a row that is newer than the page's last row,
 * that conversation was deleted.
 * @param {Thread[]} before @param {Thread[]} first
 */
function refreshed(before, first) {
  const ids = new Set(first.map((thread) => thread.id));
  const last = first.at(-1)?.updated_at ?? 0;
  return [...first, ...before.filter((thread) => !ids.has(thread.id) && thread.updated_at <= last)];
}

/** Updates one conversation. @param {Partial<Thread> & {id: string}} change */
export function note(change) {
  const all = threads.value;
  const known = all.find((thread) => thread.id === change.id);
  if (!known) return;
  if (Object.entries(change).every(([name, value]) => known[/** @type {keyof Thread} */ (name)] === value)) return;
  threads.value = all.map((thread) => (thread === known ? { ...thread, ...change } : thread));
}

/** @param {string} id @param {string} title */
export async function rename(id, title) {
  await patch(`/threads/${id}`, { title });
  note({ id, title });
}

/** @param {string} id */
export async function forget(id) {
  await remove(`/threads/${id}`);
  threads.value = threads.value.filter((thread) => thread.id !== id);
}

/** Reads the first page again. A search, load or deletion during the read takes precedence over the result. */
export async function refresh() {
  for (let left = LOOKS; left > 0; left -= 1) {
    const before = threads.value;
    if (!isFree()) return;
    const page = await get(`/threads${query({ limit: PAGE })}`).catch(() => null);
    if (!page || !isFree()) return;
    if (threads.value !== before) continue;
    isUnread.value = false;
    if (before.length <= PAGE) show(page, []);
    else threads.value = refreshed(before, page.data);
    return;
  }
}

/** Whether the list can be refreshed now. During a load, the refresh is postponed. */
function isFree() {
  isDue = loading.value;
  return !loading.value && !search.value;
}

/**
 * Polls the list, because other clients change conversations, and runs end.
 * @returns {() => void} stops polling
 */
export function keep() {
  const timer = setInterval(() => {
    if (!document.hidden || mayNotify()) refresh();
  }, LOOK_AGAIN_MS);
  return () => clearInterval(timer);
}
