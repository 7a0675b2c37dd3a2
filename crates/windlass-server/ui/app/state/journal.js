// Queries on a thread's journal: the current step, and the positions where a fork may start.

import { get, query } from "../lib/api.js";

/** Maximum number of events per request. */
const EVENTS = 500;
/** Events that change the progress of a run. */
const MARKS = ["run.started", "run.finished", "run.withdrawn", "step.started", "step.replied", "step.failed"];
/** Events that add a message to the history. */
const SAID = ["message.received", "message.taken"];

/**
 * Returns the events after one position, up to another position.
 * @param {string} thread @param {number} after @param {number} until @param {AbortSignal} [stop]
 */
async function events(thread, after, until, stop) {
  /** @type {any[]} */
  const all = [];
  for (let from = after; from < until; ) {
    const page = await get(`/threads/${thread}/events${query({ after: from, limit: Math.min(EVENTS, until - from) })}`, { stop });
    if (page.data.length === 0) break;
    all.push(...page.data);
    from = page.data.at(-1).seq;
  }
  return all;
}

/**
 * Returns the run that is active at a position of the journal. `step` is the run's `step.started` if the step has no
 * reply yet; `failed` is the `step.failed` that the run retries; `after` contains the events after the step's start, up
 * to the position. The list of runs has the start time. The run may have ended since the position was read, so the
 * events decide. A reader of a shared conversation has no list of runs.
 * @param {string} thread @param {number} head @param {boolean} isMine @param {AbortSignal} stop
 */
export async function underWay(thread, head, isMine, stop) {
  const run = isMine ? (await get(`/runs${query({ thread, active: true, limit: 1 })}`, { stop })).data[0] : null;
  /** @type {any[]} */
  let after = [];
  // Whatever happened since, for example many queued messages, the search goes back to the last mark.
  for (let until = head; until > 0; until -= EVENTS) {
    const some = await events(thread, Math.max(0, until - EVENTS), until, stop);
    const at = some.findLastIndex((event) => MARKS.includes(event.type));
    after = [...some.slice(at + 1), ...after];
    if (at < 0) continue;
    const mark = some[at];
    if (mark.type === "run.finished" || mark.type === "run.withdrawn") return null;
    const since = run?.id === mark.run ? run.started_at : mark.at;
    const [step, failed] = ["step.started", "step.failed"].map((type) => (mark.type === type ? mark : null));
    return { id: mark.run, since, step, failed, after };
  }
  return run && { id: run.id, since: run.started_at, step: null, failed: null, after };
}

/**
 * @typedef {{attempt: number, most: number, at: number}} Retry
 * The retry of a failed model call: its attempt, the maximum (0 if not recorded), and its start.
 */

/**
 * Returns the attempt that follows a `step.failed`, or null if no attempt follows.
 * @param {any} failed @param {number} [now] @returns {Retry | null}
 */
export function retryOf({ attempt = 1, attempts_max: most = 0, retry_at: at, at: failedAt }, now = Date.now()) {
  if (!at && !most) return null;
  // The clocks of server and browser may differ: the countdown is never longer than the server's delay.
  return { attempt: attempt + 1, most, at: Math.min(at ?? now, now + Math.max(0, (at ?? 0) - failedAt)) };
}

/**
 * Returns the position before a message, where a fork may start. A message that steered an active run has no such
 * position, because a run cannot be forked in the middle.
 * @param {string} thread @param {number} seq
 */
export async function before(thread, seq) {
  let steers = false;
  for (let until = seq - 1; until > 0; until -= EVENTS) {
    const from = Math.max(0, until - EVENTS);
    // Whether a run is active is unknown at the start of the page (`null`), except at the start of the thread: no run
    // is active there.
    let active = from === 0 ? false : null;
    let at = 0;
    let last = from;
    const some = await events(thread, from, until);
    for (const event of some) {
      if (event.type === "run.started") {
        if (active === null) at = last;
        active = true;
      }
      if (event.type === "run.finished" || event.type === "run.withdrawn") active = false;
      if (active === false) at = event.seq;
      last = event.seq;
    }
    steers ||= some.some((event) => event.seq > at && SAID.includes(event.type));
    if (at > 0 && steers) throw new Error("This message was sent during a run. Edit the first message of the run, or send another message.");
    if (at > 0) return at;
  }
  throw new Error("Nothing comes before this message. Start a new conversation instead.");
}

/** Returns the position at which the run of an answer has ended. @param {string} thread @param {number} seq */
export async function behind(thread, seq) {
  for (let from = seq - 1; ; ) {
    const page = await get(`/threads/${thread}/events${query({ after: from, limit: EVENTS })}`);
    const end = page.data.find((/** @type {any} */ event) => event.type === "run.finished");
    if (end) return end.seq;
    if (page.data.length === 0) throw new Error("The run is still active. Stop it or wait until it ends, then fork.");
    from = page.data.at(-1).seq;
  }
}
