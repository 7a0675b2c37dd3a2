// Everything that waits for this person's word, over all conversations.

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
/** What this person may answer themselves. */
export const mine = computed(() => inbox.value.filter((open) => open.counts));
const seen = new Set();
/** Whether the inbox has not been read yet, so that nobody knows what of it is new. */
let isFirst = true;
/** How often a part of it was changed, apart from what is read. */
let changes = 0;

/** Reads the inbox anew. */
export async function load() {
  const before = changes;
  /** @type {{data: Interrupt[]}} */
  const { data: open } = await all("/interrupts");
  // What was answered or heard of meanwhile is not in what was read; what moved between two pages is there twice.
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
 * Shows what is open now, the longest wait first: what comes stands below, and moves nothing under a hand. What is as it
 * was stays the same object, so that nothing is drawn anew for it.
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

/** Since when a run has asked something without a break, so that nothing moves when one of its asks is answered. @type {Map<string, number>} */
const begun = new Map();

/** The run that asked first comes first. Those of one run stand together in the order of its calls, as the server tells them. @param {Interrupt[]} open */
function ordered(open) {
  /** @type {Map<string, Interrupt[]>} */
  const runs = new Map();
  for (const one of open) runs.set(one.run, [...(runs.get(one.run) ?? []), one]);
  for (const run of begun.keys()) if (!runs.has(run)) begun.delete(run);
  for (const [run, asks] of runs) begun.set(run, Math.min(begun.get(run) ?? Infinity, ...asks.map((one) => one.since)));
  const since = (/** @type {[string, Interrupt[]]} */ [run]) => begun.get(run) ?? 0;
  return [...runs].sort((one, other) => since(one) - since(other) || (one[0] < other[0] ? -1 : 1)).flatMap(([, asks]) => asks);
}

/** Tells the browser of what is new. */
function announce() {
  const fresh = mine.value.filter((open) => !seen.has(open.id));
  fresh.forEach((open) => seen.add(open.id));
  if (isFirst) return;
  for (const open of fresh.slice(0, 3)) {
    const body = open.title ? `${summary(open)} (${open.title})` : summary(open);
    notify({ title: "Windlass waits for you", body, tag: open.id, address: open.readable ? `/chat/${open.thread}` : "/inbox" });
  }
}

/**
 * Answers one. The answer counts for what was shown: another call is then not let through.
 * @param {Interrupt} open @param {object} answer @param {object} [grant]
 */
export async function answer(open, answer, grant) {
  const body = { answer, ...(open.approval ? { approval: open.approval } : {}), ...(grant ? { grant } : {}) };
  const given = await post(`/interrupts/${encodeURIComponent(open.id)}/answer`, body);
  settled([given]);
}

/** Takes away what is closed; where more approvals are needed, it stays. @param {{interrupt: string, state: string}[]} answered */
function settled(answered) {
  const closed = new Set(answered.filter((one) => one.state === "closed").map((one) => one.interrupt));
  changes += 1;
  const threads = new Set(inbox.value.filter((one) => closed.has(one.id)).map((one) => one.thread));
  show(inbox.value.filter((one) => !closed.has(one.id)));
  for (const id of threads) note({ id, interrupts: inbox.value.filter((one) => one.thread === id).length });
}

/**
 * Answers several at once. Those of one thread count together or not at all.
 * @param {{open: Interrupt, answer: object}[]} all
 * @returns {Promise<Problem[]>} why some did not count
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

/** Looks again from time to time. @returns {() => void} what ends that */
export function keep() {
  const timer = setInterval(() => {
    if (document.hidden && !mayNotify()) return;
    load().catch(() => {});
  }, LOOK_AGAIN_MS);
  return () => clearInterval(timer);
}
