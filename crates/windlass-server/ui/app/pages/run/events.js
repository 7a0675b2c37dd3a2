// The events of a run, read part by part from its conversation's journal.

import { get, query } from "../../lib/api.js";

/** Events that are read at once. */
const EVENTS = 500;
/** How a run stands that has not ended. */
const OPEN = ["queued", "running", "paused"];

/** A run with all its events. @param {string} id @param {AbortSignal} [stop] */
export async function readRun(id, stop) {
  const outcome = await get(`/runs/${id}`, { stop });
  // What stands before a run in its conversation may be long, and is none of it.
  const read = await readEvents(outcome.meta.threadId, id, Math.max(0, outcome.meta.from - 1), stop);
  // It may have ended between the two.
  const isOld = OPEN.includes(outcome.status) && read.events.some(isEnd);
  return { outcome: isOld ? await get(`/runs/${id}`, { stop }) : outcome, ...read };
}

/**
 * Events of a run behind a position, up to its end or to the newest, and the position up to which that is. A part may
 * end early, where its texts are long: only the server knows whether more follows.
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
