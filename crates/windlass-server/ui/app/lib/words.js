// Formatting of numbers, prices, times, sizes and JSON.

import { parse, visible, written } from "./exact.js";

const NUMBER = new Intl.NumberFormat();
const COMPACT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const MONTH = new Intl.DateTimeFormat(undefined, { month: "long", year: "numeric" });

/** @param {number | null | undefined} count */
export const count = (count) => (count == null ? "–" : NUMBER.format(count));
/** @param {number | null | undefined} count */
export const short = (count) => (count == null ? "–" : COMPACT.format(count));

/**
 * Formats a price in US dollars; below one cent, with two significant digits.
 * @param {number | null | undefined} usd
 */
export function money(usd) {
  if (usd == null) return "–";
  if (usd === 0) return "$0";
  if (usd < 0.01) return `$${usd.toPrecision(2)}`;
  return `$${usd.toFixed(usd < 1 ? 3 : 2)}`;
}

/** @param {number | null | undefined} micro */
export const microUsd = (micro) => money(micro == null ? null : micro / 1e6);

/** Formats a duration, rounded before the unit is chosen. @param {number | null | undefined} ms */
export function length(ms) {
  if (ms == null) return "–";
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  const tenths = Math.round(ms / 100);
  if (tenths < 600) return `${(tenths / 10).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Formats a size, rounded before the unit is chosen. @param {number} bytes */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const tenths = Math.round((bytes / 1024) * 10);
  return tenths < 10240 ? `${(tenths / 10).toFixed(1)} KiB` : `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}

/** @param {number} at */
export const clock = (at) => CLOCK.format(at);
/** @param {number} at */
export const full = (at) => FULL.format(at);

/** Formats a time in short form: its age, the time of day, or the day. @param {number} at @param {number} [now] */
export function when(at, now = Date.now()) {
  const ago = now - at;
  if (ago < 60000) return "now";
  if (ago < 3600000) return `${Math.floor(ago / 60000)} min`;
  return new Date(at).toDateString() === new Date(now).toDateString() ? CLOCK.format(at) : DAY.format(at);
}

/** Formats the age of a time. @param {number} at @param {number} [now] */
export function ago(at, now = Date.now()) {
  const minutes = Math.floor((now - at) / 60000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ago` : `${Math.floor(hours / 24)} d ago`;
}

/**
 * Describes the retry of a failed model call: the attempt's number, and the seconds until it starts. (SK-L6, SK-L7)
 * @param {{attempt: number, most: number, at: number}} retry `attempt`: of the retry; `most`: 0 if unknown; `at`: its start
 * @param {number} [now]
 */
export function retrying({ attempt, most, at }, now = Date.now()) {
  const seconds = Math.ceil((at - now) / 1000);
  const parts = [most > 0 ? `attempt ${attempt} of ${most}` : "", seconds > 0 ? `in ${seconds} s` : ""].filter(Boolean);
  return parts.length > 0 ? `Retrying (${parts.join(", ")})` : "Retrying";
}

/** Capitalizes a message of the server. @param {string} text */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const DECIMALS_MAX = 12;

/**
 * Returns the labels of an axis, with enough decimals that neighboring labels differ.
 * @param {number[]} values evenly spaced
 */
export function ticks(values) {
  const step = Math.abs((values[1] ?? 0) - (values[0] ?? 0));
  if (step === 0 || step >= 1) return values.map((value) => short(value));
  let decimals = 1;
  while (decimals < DECIMALS_MAX && Math.abs(Number(step.toFixed(decimals)) - step) > step / 100) decimals += 1;
  return values.map((value) => value.toFixed(decimals));
}

/**
 * Returns the heading for a time in a list that is grouped by age. (SK-U11)
 * @param {number} at @param {number} [now]
 */
export function group(at, now = Date.now()) {
  const today = new Date(now).setHours(0, 0, 0, 0);
  const day = 86400000;
  if (at >= today) return "Today";
  if (at >= today - day) return "Yesterday";
  if (at >= today - 7 * day) return "Previous 7 days";
  if (at >= today - 30 * day) return "Previous 30 days";
  return MONTH.format(at);
}

/**
 * Indents a JSON text without changing its values. For any other text, only escapes invisible characters.
 * @param {string} text
 */
export function tidyJson(text) {
  try {
    return written(parse(text));
  } catch {
    return visible(text);
  }
}

/** @param {number} count @param {string} one @param {string} [many] */
export const plural = (count, one, many = `${one}s`) => `${NUMBER.format(count)} ${count === 1 ? one : many}`;
