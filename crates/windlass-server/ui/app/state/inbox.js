// The open interrupts of all conversations that this user may see.

import { all, post, Problem } from "../lib/api.js";
import { computed, signal } from "../lib/html.js";
import { summary } from "./interrupts.js";
import { mayNotify, notify } from "./notify.js";
import { note } from "./threads.js";

/**
 * @typedef {{id: string, thread: string, run: string, kind: string, tool: string | null, arguments: string | null, approval: string | null,
 *   preview: string | null, reason: string | null, question: any, limit: any, server: string | null, url: string | null, runner: string | null,
 *   effect: string | null, begun_at: number | null, since: number, expires_at: number | null, terms: {on_expiry?: "approve"},
 *   approved_by: any[], counts: boolean, title: string | null, owner: {id: string, name: string}, readable: boolean}} Interrupt
 */

const LOOK_AGAIN_MS = 10000;

/** @type {import("../../vendor/signals.js").Signal<Interrupt[]>} */
export const inbox = signal([]);
/** Interrupts that this user may answer. */
export const mine = computed(() => inbox.value.filter((open) => open.counts));
const seen = new Set();
/** Whether the inbox was never read: the first read must not notify of old interrupts. */
let isFirst = true;
/** Counts local changes, to detect a change during a read. */
let changes = 0;

/** Reads the inbox from the server. */
export async function load() {
  const before = changes;
  /** @type {{data: Interrupt[]}} */
  const { data: open } = await all("/interrupts");
  // A local change during the read makes it stale. An interrupt that moved between two pages may appear twice.
  if (changes !== before) return load();
  show([...new Map(open.map((one) => [one.id, one])).values()]);
  isFirst = false;
}

/** @param {string} thread @param {Interrupt[]} open */
export function replace(thread, open) {
  changes += 1;
  show([...inbox.value.filter((one) => one.thread !== thread), ...open]);
  note({ id: thread, interrupts: open.length });
}

/**
 * Shows the open interrupts, oldest first, so that a new interrupt never moves the others. An unchanged interrupt keeps
 * its object, so that Preact does not render it again.
 * @param {Interrupt[]} open
 */
function show(open) {
  const before = new Map(inbox.value.map((one) => [one.id, { one, text: JSON.stringify(one) }]));
  const now = ordered(open).map((one) => {
    const known = before.get(one.id);
    return known?.text === JSON.stringify(one) ? known.one : one;
  });
  if (now.length !== inbox.value.length || now.some((one, at) => one !== inbox.value[at])) inbox.value = now;
  announce();
}

/**
 * The time since which each run has had open interrupts. The order must not change if one interrupt is answered.
 * @type {Map<string, number>}
 */
const begun = new Map();

/**
 * Orders interrupts by run, oldest first; within a run, by its calls, as the server returns them.
 * @param {Interrupt[]} open
 */
function ordered(open) {
  /** @type {Map<string, Interrupt[]>} */
  const runs = new Map();
  for (const one of open) runs.set(one.run, [...(runs.get(one.run) ?? []), one]);
  for (const run of begun.keys()) if (!runs.has(run)) begun.delete(run);
  for (const [run, asks] of runs) begun.set(run, Math.min(begun.get(run) ?? Infinity, ...asks.map((one) => one.since)));
  const since = (/** @type {[string, Interrupt[]]} */ [run]) => begun.get(run) ?? 0;
  return [...runs].sort((one, other) => since(one) - since(other) || (one[0] < other[0] ? -1 : 1)).flatMap(([, asks]) => asks);
}

/** Shows browser notifications for new interrupts. */
function announce() {
  const fresh = mine.value.filter((open) => !seen.has(open.id));
  fresh.forEach((open) => seen.add(open.id));
  if (isFirst) return;
  for (const open of fresh.slice(0, 3)) {
    const body = open.title ? `${summary(open)} (${open.title})` : summary(open);
    notify({ title: "Windlass needs your input", body, tag: open.id, address: open.readable ? `/chat/${open.thread}` : "/inbox" });
  }
}

/**
 * Answers an interrupt. The answer is bound to the displayed call: the server rejects it if the call has changed.
 * @param {Interrupt} open @param {object} answer @param {object} [grant]
 */
export async function answer(open, answer, grant) {
  const body = { answer, ...(open.approval ? { approval: open.approval } : {}), ...(grant ? { grant } : {}) };
  const given = await post(`/interrupts/${encodeURIComponent(open.id)}/answer`, body);
  settled([given]);
}

/**
 * Removes closed interrupts. Keeps interrupts that need further approvals.
 * @param {{interrupt: string, state: string}[]} answered
 */
function settled(answered) {
  const closed = new Set(answered.filter((one) => one.state === "closed").map((one) => one.interrupt));
  changes += 1;
  const threads = new Set(inbox.value.filter((one) => closed.has(one.id)).map((one) => one.thread));
  show(inbox.value.filter((one) => !closed.has(one.id)));
  for (const id of threads) note({ id, interrupts: inbox.value.filter((one) => one.thread === id).length });
}

/**
 * Answers several interrupts in one request. The answers of one thread are applied together or not at all.
 * @param {{open: Interrupt, answer: object}[]} all
 * @returns {Promise<Problem[]>} errors of the threads whose answers were rejected
 */
export async function answerAll(all) {
  const answers = all.map(({ open, answer }) => ({
    interrupt: open.id,
    answer,
    ...(open.approval ? { approval: open.approval } : {}),
  }));
  /** @type {{results: {answered: any[], problem: any}[]}} */
  const { results } = await post("/interrupts/answers", { answers });
  settled(results.flatMap((one) => one.answered));
  return results.flatMap((one) => (one.problem ? [new Problem(one.problem)] : []));
}

/** Polls the inbox. @returns {() => void} stops polling */
export function keep() {
  const timer = setInterval(() => {
    if (document.hidden && !mayNotify()) return;
    load().catch(() => {});
  }, LOOK_AGAIN_MS);
  return () => clearInterval(timer);
}
