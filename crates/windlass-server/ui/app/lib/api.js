// Requests to the API: typed errors, one session refresh at a time, and a bounded number of retries.

import { signal } from "./html.js";

export const BASE = "/api/v1";
/** Maximum number of retries after the first attempt, and the delays between them. (ZE-X11) */
const RETRIES = 3;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 8000;

/** Whether the last request reached the server. */
export const online = signal(true);
/** Number of requests that the server rejected with 401 since the last sign-in. */
export const expired = signal(0);

/** An error response of the server (`application/problem+json`). */
export class Problem extends Error {
  /** @param {{status: number, code?: string, detail?: string, title?: string, hint?: string, retry_after?: number}} document */
  constructor(document) {
    super(document.detail || document.title || "");
    this.name = "Problem";
    this.status = document.status;
    this.code = document.code ?? "";
    this.hint = document.hint ?? "";
    this.retryAfterMs = (document.retry_after ?? 0) * 1000;
  }
}

/** The request did not reach the server. */
export class Unreachable extends Error {
  constructor() {
    super("Cannot reach the server. This page may be out of date.");
    this.name = "Unreachable";
  }
}

/** @param {unknown} error Whether the request was aborted because the user left the page. */
export const isAborted = (error) => error instanceof DOMException && error.name === "AbortError";

/**
 * Title and hint by status, for an error response without a message. (ZE-X5)
 * @type {Record<number, [string, string]>}
 */
const STATUSES = {
  401: ["You are not signed in.", "Sign in again. Text that you have typed is kept."],
  403: ["You do not have permission to do this.", "Ask an administrator of your workspace."],
  413: ["The request is too large.", "Send less at a time."],
  429: ["Too many requests.", "Try again in a moment."],
  502: ["The server is unavailable.", "It may be starting or stopping. Try again in a moment."],
  503: ["The server is not ready.", "It may be starting or stopping. Try again in a moment."],
  504: ["The server took too long to respond.", "Try again. Recorded work is not lost."],
};

/** @param {unknown} error Whether the server may still have executed the request: a retry must then use the same key. */
export const isOpen = (error) => !(error instanceof Problem) || error.status === 202 || error.status >= 500 || error.code === "key_running";

/**
 * Returns the title and the hint of an error, for display.
 * @param {unknown} error @returns {{title: string, hint: string}}
 */
export function told(error) {
  if (error instanceof Problem) {
    const [title, hint] = STATUSES[error.status] ?? ["", ""];
    if (error.code === "insufficient_credit") return { title: "You have no credit left.", hint: `${error.message}. ${error.hint}` };
    return { title: error.message || title || `The server responded with status ${error.status}.`, hint: error.hint || hint };
  }
  if (error instanceof Unreachable) return { title: error.message, hint: "Check that windlass serve is running." };
  return { title: String(error instanceof Error ? error.message : error), hint: "" };
}

/** @param {number} ms @param {AbortSignal} [stop] */
export const wait = (ms, stop) =>
  new Promise((resolve, reject) => {
    const aborted = () => {
      clearTimeout(timer);
      reject(new DOMException("left", "AbortError"));
    };
    const timer = setTimeout(() => {
      stop?.removeEventListener("abort", aborted);
      resolve(undefined);
    }, ms);
    stop?.addEventListener("abort", aborted);
    if (stop?.aborted) aborted();
  });

/** @type {Promise<boolean> | null} */
let refreshing = null;

/** Refreshes the session; concurrent callers share one request. Resolves to false only if the session has ended. */
export function refresh() {
  refreshing ??= reach(`${BASE}/auth/refresh`, { method: "POST" })
    .then(async (answer) => {
      if (!answer.ok && ![401, 403].includes(answer.status)) throw await problemOf(answer);
      return answer.ok;
    })
    .finally(() => (refreshing = null));
  return refreshing;
}

/** Resolves once the user has signed in again. @param {AbortSignal} stop */
export const signedIn = (stop) =>
  new Promise((resolve, reject) => {
    const end = expired.subscribe((times) => {
      if (times === 0) leave(resolve);
    });
    const aborted = () => leave(() => reject(new DOMException("left", "AbortError")));
    /** @param {(value?: any) => void} then */
    function leave(then) {
      // The signal calls its subscriber before `subscribe` has returned `end`.
      queueMicrotask(() => end());
      stop.removeEventListener("abort", aborted);
      then();
    }
    stop.addEventListener("abort", aborted);
    if (stop.aborted) aborted();
  });

/** Sends one request and updates `online`. @param {string} url @param {RequestInit} options */
async function reach(url, options) {
  try {
    const answer = await fetch(url, options);
    online.value = true;
    return answer;
  } catch (error) {
    if (isAborted(error)) throw error;
    online.value = false;
    throw new Unreachable();
  }
}

/**
 * Sends one request; if the session has expired, refreshes it and sends the request again.
 * @param {string} path below the API's base
 * @param {RequestInit} options
 * @returns {Promise<Response>}
 */
export async function send(path, options) {
  const go = () => reach(BASE + path, options);
  let answer = await go();
  if (answer.status === 401 && !path.startsWith("/auth/")) {
    if (await refresh()) answer = await go();
    if (answer.status === 401) expired.value += 1;
  }
  return answer;
}

/** @param {Response} answer */
export async function problemOf(answer) {
  try {
    return new Problem({ ...(await answer.json()), status: answer.status });
  } catch {
    // A proxy between the page and the server has responded with its HTML error page.
    return new Problem({ status: answer.status });
  }
}

/** @param {unknown} error @param {boolean} repeatable */
function waitOf(error, repeatable) {
  if (error instanceof Unreachable) return repeatable ? 0 : null;
  if (!(error instanceof Problem)) return null;
  // The server is still executing the first attempt, or has stored its input. A retry with the same key returns the
  // result.
  if (error.status === 202 || error.code === "key_running") return repeatable ? error.retryAfterMs : null;
  const passes = [429, 502, 503, 504].includes(error.status);
  return passes && (repeatable || error.status === 429) ? error.retryAfterMs : null;
}

/**
 * @typedef {{body?: unknown, stop?: AbortSignal, etag?: string, raw?: BodyInit, once?: boolean | string}} Options
 * `once`: sends an idempotency key (a new one, or this string), so that the server executes a repeated request once.
 */

/**
 * Sends a request and returns the JSON response; null if it has no content.
 * @param {string} method @param {string} path @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (options.body !== undefined) headers["content-type"] = "application/json";
  if (options.etag) headers["if-match"] = options.etag;
  if (options.once) headers["idempotency-key"] = options.once === true ? crypto.randomUUID() : options.once;
  const body = options.body !== undefined ? JSON.stringify(options.body) : options.raw;
  const repeatable = method === "GET" || Boolean(options.once);
  for (let tries = 0; ; tries += 1) {
    try {
      const answer = await send(path, { method, headers, body, signal: options.stop });
      const type = answer.headers.get("content-type") ?? "";
      // A 202 may be a problem too: the server has stored the input, but the run's driver has not responded.
      if (!answer.ok || type.includes("problem+json")) throw await problemOf(answer);
      if (answer.status === 204) return null;
      const value = type.includes("json") ? await answer.json() : await answer.text();
      const etag = answer.headers.get("etag");
      return etag && value && typeof value === "object" && !Array.isArray(value) ? Object.assign(value, { etag }) : value;
    } catch (error) {
      const least = waitOf(error, repeatable);
      // If the delay is longer, show the error: the user decides when to retry.
      if (least === null || least > LONGEST_WAIT_MS || tries >= RETRIES) throw error;
      await wait(Math.max(least, Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries)), options.stop);
    }
  }
}

/** @param {string} path @param {Options} [options] */
export const get = (path, options) => call("GET", path, options);
/** Maximum number of entries per page of a list. */
const MOST_AT_ONCE = 200;

/**
 * Reads all pages of a list.
 * @param {string} path @param {Options} [options]
 * @returns {Promise<{data: any[]}>}
 */
export async function all(path, options) {
  /** @type {any[]} */
  const data = [];
  const sign = path.includes("?") ? "&" : "?";
  for (let cursor = ""; ; ) {
    const page = await get(`${path}${sign}limit=${MOST_AT_ONCE}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`, options);
    data.push(...page.data);
    if (!page.next_cursor) return { data };
    cursor = page.next_cursor;
  }
}

/** @param {string} path @param {unknown} [body] @param {Options} [options] */
export const post = (path, body = {}, options = {}) => call("POST", path, { body, once: true, ...options });
/** @param {string} path @param {unknown} [body] @param {Options} [options] */
export const put = (path, body = {}, options = {}) => call("PUT", path, options.raw === undefined ? { body, ...options } : options);
/** @param {string} path @param {unknown} [body] @param {Options} [options] */
export const patch = (path, body = {}, options = {}) => call("PATCH", path, { body, ...options });
/** @param {string} path @param {Options} [options] */
export const remove = (path, options) => call("DELETE", path, options);

/**
 * Builds a query string from the values that are set.
 * @param {Record<string, string | number | boolean | null | undefined>} values
 */
export function query(values) {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined && value !== null && value !== "") all.set(name, String(value));
  const text = all.toString();
  return text ? `?${text}` : "";
}
