// How limits are told to people: by what they count and for whom, in the unit that people count in.

import { count, length, microUsd } from "./words.js";

/** @typedef {{limit: string, figure: number, used?: number}} Limit its name: that of its setting, or `workspace/per/whose/unit`, with a day behind it where it is for one */

/** @type {Record<string, string>} */
const SETTINGS = {
  max_steps: "steps of a run",
  max_same_calls: "the same calls with the same results",
  run_timeout_ms: "the time of a run",
  max_calls_per_step: "calls of a step",
};
/** @type {Record<string, string>} */
const UNITS = { usd: "money" };

/** Whether it is a budget, in which others may make room. @param {Limit} limit */
export const isBudget = ({ limit }) => limit.includes("/");

/** Whether it is one of money, which is counted in millionths of a US dollar. @param {Limit} limit */
export const isMoney = ({ limit }) => limit.split("/")[3] === "usd";

/** What it limits. @param {Limit} limit */
export function limitName({ limit }) {
  const [, per, , unit, day] = limit.split("/");
  if (unit) return `${UNITS[unit] ?? unit} per ${per}${day ? ` on ${day}` : ""}`;
  return SETTINGS[limit] ?? (limit.startsWith("max_calls.") ? `calls of ${limit.slice("max_calls.".length)}` : limit);
}

/** A figure of it. @param {Limit} limit @param {number | undefined} figure */
export function limitAmount(limit, figure) {
  if (isMoney(limit)) return microUsd(figure);
  return limit.limit === "run_timeout_ms" ? length(figure) : count(figure);
}
