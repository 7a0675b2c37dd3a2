// What a conversation used: summed over its replies, and guessed for the one that grows. (SK-U9)

/**
 * @typedef {{input: number, output: number, cached: number, costMicro: number, priced: boolean, replies: number, last: Last | null}} Figures
 * @typedef {{ttftMs: number | null, perSecond: number | null, tookMs: number | null}} Last
 * @typedef {Last & {tokens: number}} Pulse what goes on, with tokens that are guessed from characters
 */

/** A fragment has about so many characters for a token. */
const CHARS_OF_A_TOKEN = 4;
/** A reply that took less is too short for a rate. */
const LEAST_MS = 50;

/** @type {Figures} */
export const NOTHING = { input: 0, output: 0, cached: 0, costMicro: 0, priced: true, replies: 0, last: null };

/** @param {number} tokens @param {number | null} tookMs @param {number | null} ttftMs */
function rate(tokens, tookMs, ttftMs) {
  const ms = (tookMs ?? 0) - (ttftMs ?? 0);
  return ms > LEAST_MS && tokens > 0 ? (tokens * 1000) / ms : null;
}

/** The sum with one more reply. @param {Figures} sum @param {import("./entry.js").Entry} entry @returns {Figures} */
export function plus(sum, entry) {
  const { usage } = entry;
  if (!usage) return sum;
  const output = usage.output ?? 0;
  return {
    input: sum.input + (usage.input ?? 0),
    output: sum.output + output,
    cached: sum.cached + (usage.cached ?? 0),
    costMicro: sum.costMicro + (entry.costMicro ?? 0),
    priced: sum.priced && entry.costMicro !== null,
    replies: sum.replies + 1,
    last: entry.durationMs === null ? sum.last : { ttftMs: entry.ttftMs, tookMs: entry.durationMs, perSecond: rate(output, entry.durationMs, entry.ttftMs) },
  };
}

/** What an entry that grows shows of itself. @param {import("./entry.js").Entry} entry @param {number} now @returns {Pulse} */
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
