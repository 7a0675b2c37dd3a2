// Reads the events of a run from its thread's journal, page by page.

import { get, query } from "../../lib/api.js";

/** Maximum number of events per request. */
const EVENTS = 500;
/** Statuses of a run that has not ended. */
const OPEN = ["queued", "running", "paused"];

/** Reads a run with all its events. @param {string} id @param {AbortSignal} [stop] */
export async function readRun(id, stop) {
  const outcome = await get(`/runs/${id}`, { stop });
  // Start at the run: the journal before the run may be long.
  const read = await readEvents(outcome.meta.threadId, id, Math.max(0, outcome.meta.from - 1), stop);
  // The run may have ended between the two requests.
  const isOld = OPEN.includes(outcome.status) && read.events.some(isEnd);
  return { outcome: isOld ? await get(`/runs/${id}`, { stop }) : outcome, ...read };
}

/**
 * Reads the events of a run after a position, up to its end or to the newest event. `until` is the last position that
 * was read. A page with long texts may be short; `next_after` shows whether more events follow.
 * @param {string} thread @param {string} run @param {number} after @param {AbortSignal} [stop]
 */
export async function readEvents(thread, run, after, stop) {
  /** @type {any[]} */
  const events = [];
  let until = after;
  for (;;) {
    const page = await get(`/threads/${thread}/events${query({ after: until, limit: EVENTS })}`, { stop });
    const own = page.data.filter((/** @type {any} */ event) => event.run === run);
    events.push(...own);
    until = page.data.at(-1)?.seq ?? until;
    if (page.next_after === undefined || page.data.length === 0 || own.some(isEnd)) return { events, until };
  }
}

/** @param {{type: string}} event */
export const isEnd = (event) => event.type === "run.finished";
