// The usage of a conversation, summed by the server, the figures of the last reply, and estimates for the current
// reply. (SK-U9)

import { get, Problem, query, signedIn, wait } from "../lib/api.js";
import { signal } from "../lib/html.js";

/**
 * @typedef {{input: number, output: number, cached: number, costUsd: number, priced: boolean}} Sum
 * @typedef {{ttftMs: number | null, perSecond: number | null, tookMs: number | null}} Last
 * @typedef {Last & {tokens: number}} Pulse figures of the current reply, with tokens estimated from characters
 */

/** Estimated number of characters per token. */
const CHARS_OF_A_TOKEN = 4;
/** Minimum duration of a reply that has a rate, in milliseconds. */
const LEAST_MS = 50;

/** Minimum time between two reads of a sum, in milliseconds. */
const STANDS_MS = 1000;
/** Delay of a retry after a failed read, in milliseconds. */
const AGAIN_MS = 3000;

/** Usage of all runs of a conversation, including runs whose messages are not loaded. */
export class Sums {
  /** @param {string} thread @param {AbortSignal} stop */
  constructor(thread, stop) {
    this.thread = thread;
    this.stop = stop;
    /** @type {import("../../vendor/signals.js").Signal<Sum | null>} */
    this.value = signal(null);
    this.reading = false;
    this.again = false;
  }

  /** Reads the sum now, or `STANDS_MS` after the last read. Concurrent callers share one read. */
  async read() {
    this.again = true;
    if (this.reading) return;
    this.reading = true;
    while (this.again && !this.stop.aborted) {
      this.again = false;
      await this.look().catch((error) => this.failed(error)).catch(() => {});
    }
    this.reading = false;
  }

  async look() {
    const { totals } = await get(`/usage${query({ thread: this.thread })}`, { stop: this.stop });
    this.value.value = told(totals);
    await wait(STANDS_MS, this.stop);
  }

  /** Keeps the last sum, and retries unless the server rejected the request. @param {unknown} error */
  async failed(error) {
    const status = error instanceof Problem ? error.status : 0;
    this.again ||= status < 400 || status >= 500 || [401, 429].includes(status);
    await (status === 401 ? signedIn(this.stop) : wait(AGAIN_MS, this.stop));
  }
}

/** @param {any} totals as the API returns them @returns {Sum} */
const told = (totals) => ({
  input: totals.prompt_tokens,
  output: totals.completion_tokens,
  cached: totals.cached_tokens,
  costUsd: totals.cost_usd,
  priced: totals.cost_unknown === 0,
});

/** @param {number} tokens @param {number | null} tookMs @param {number | null} ttftMs */
function rate(tokens, tookMs, ttftMs) {
  const ms = (tookMs ?? 0) - (ttftMs ?? 0);
  return ms > LEAST_MS && tokens > 0 ? (tokens * 1000) / ms : null;
}

/**
 * Returns the figures of a reply, or null if the reply has no usage.
 * @param {import("./entry.js").Entry} entry @returns {Last | null}
 */
export function took({ usage, durationMs, ttftMs }) {
  if (!usage || durationMs === null) return null;
  return { ttftMs, tookMs: durationMs, perSecond: rate(usage.output ?? 0, durationMs, ttftMs) };
}

/**
 * Returns the figures of the current reply.
 * @param {import("./entry.js").Entry} entry @param {number} now @returns {Pulse}
 */
export function pulse(entry, now) {
  const tokens = Math.round(entry.size / CHARS_OF_A_TOKEN);
  const heard = Math.round((entry.size - entry.sizeBefore) / CHARS_OF_A_TOKEN);
  return {
    tokens,
    tookMs: now - (entry.heardAt || entry.at),
    ttftMs: entry.heardAt && entry.firstAt ? entry.firstAt - entry.heardAt : null,
    perSecond: entry.firstAt ? rate(heard, now - entry.firstAt, 0) : null,
  };
}
