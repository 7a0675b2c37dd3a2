// Names and figures of limits, in the units that users know.

import { count, length, microUsd } from "./words.js";

/** @typedef {{limit: string, figure: number, used?: number}} Limit `limit`: the name of a setting, or `workspace/per/whose/unit` with `/day` for a daily budget */

/** @type {Record<string, string>} */
const SETTINGS = {
  max_steps: "steps per run",
  max_same_calls: "repeated calls with the same results",
  run_timeout_ms: "run time",
  max_calls_per_step: "calls per step",
};
/** @type {Record<string, string>} */
const UNITS = { usd: "money" };

/**
 * Returns whether the limit is a budget. A budget can become available again without being raised.
 * @param {Limit} limit
 */
export const isBudget = ({ limit }) => limit.includes("/");

/** Returns whether the unit of the limit is money, in millionths of a US dollar. @param {Limit} limit */
export const isMoney = ({ limit }) => limit.split("/")[3] === "usd";

/** @param {Limit} limit */
export function limitName({ limit }) {
  const [, per, , unit, day] = limit.split("/");
  if (unit) return `${UNITS[unit] ?? unit} per ${per}${day ? ` on ${day}` : ""}`;
  return SETTINGS[limit] ?? (limit.startsWith("max_calls.") ? `calls to ${limit.slice("max_calls.".length)}` : limit);
}

/** Formats a figure of the limit, in the limit's unit. @param {Limit} limit @param {number | undefined} figure */
export function limitAmount(limit, figure) {
  if (isMoney(limit)) return microUsd(figure);
  return limit.limit === "run_timeout_ms" ? length(figure) : count(figure);
}
