// What is looked up in a thread's journal: the step that is under way, and the places where a fork may begin.

import { get, query } from "../lib/api.js";

/** Events that are read at once. */
const EVENTS = 500;
/** Events that say how far a run is. */
const MARKS = ["run.started", "run.finished", "run.withdrawn", "step.started", "step.replied", "step.failed"];
/** Events with which a message enters the history. */
const SAID = ["message.received", "message.taken"];

/** Events after a place up to another, in order. @param {string} thread @param {number} after @param {number} until @param {AbortSignal} [stop] */
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
 * The run that is active at a position of the journal, the `step.started` of its step if that has no reply yet or the
 * `step.failed` that it is to repeat, and the events after it up to the position. The list of runs tells when the run
 * started; the run may have ended since the position was read, so that the events decide. A reader of a shared
 * conversation has no list of runs.
 * @param {string} thread @param {number} head @param {boolean} isMine @param {AbortSignal} stop
 */
export async function underWay(thread, head, isMine, stop) {
  const run = isMine ? (await get(`/runs${query({ thread, active: true, limit: 1 })}`, { stop })).data[0] : null;
  /** @type {any[]} */
  let after = [];
  // Whatever happened since, such as messages that wait, does not hide the step.
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
 * A model call that is made again: which attempt comes next, of how many at most (0 if that is not recorded), and when.
 */

/** The attempt that follows a `step.failed`; null if none does. @param {any} failed @param {number} [now] @returns {Retry | null} */
export function retryOf({ attempt = 1, attempts_max: most = 0, retry_at: at, at: failedAt }, now = Date.now()) {
  if (!at && !most) return null;
  // The clocks of the server and of this browser may differ: no countdown is longer than the server said.
  return { attempt: attempt + 1, most, at: Math.min(at ?? now, now + Math.max(0, (at ?? 0) - failedAt)) };
}

/**
 * The place in the journal before a message, where a fork may begin. Before one that went into a run which had begun
 * there is none: the run does not stand still there.
 * @param {string} thread @param {number} seq
 */
export async function before(thread, seq) {
  let steers = false;
  for (let until = seq - 1; until > 0; until -= EVENTS) {
    const from = Math.max(0, until - EVENTS);
    // Unknown at first, unless the thread begins here: then no run is active.
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
    if (at > 0 && steers) throw new Error("The agent was at work when it was told this. Edit the message that its run began with, or send another one.");
    if (at > 0) return at;
  }
  throw new Error("Nothing stands before this message; begin a new conversation instead.");
}

/** The place in the journal where the run of an answer has ended; what is said at its very end stands there. @param {string} thread @param {number} seq */
export async function behind(thread, seq) {
  for (let from = seq - 1; ; ) {
    const page = await get(`/threads/${thread}/events${query({ after: from, limit: EVENTS })}`);
    const end = page.data.find((/** @type {any} */ event) => event.type === "run.finished");
    if (end) return end.seq;
    if (page.data.length === 0) throw new Error("The run goes on. Stop it, or wait for its end, and fork then.");
    from = page.data.at(-1).seq;
  }
}
