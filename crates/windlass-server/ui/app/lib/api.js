// Requests to the server: typed problems, one refresh of a session at a time, and a few retries where they make sense.

import { signal } from "./html.js";

export const BASE = "/api/v1";
/** Tries after the first one, and the waits between them in milliseconds. (ZE-X11) */
const RETRIES = 3;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 8000;

/** Whether the server was reached the last time. */
export const online = signal(true);
/** How many requests were refused since somebody signed in, because nobody is signed in any more. */
export const expired = signal(0);

/** What went wrong with a request, in the server's words. */
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

/** The server was not reached. */
export class Unreachable extends Error {
  constructor() {
    super("The server is not reached. What you see is what was there before.");
    this.name = "Unreachable";
  }
}

/** @param {unknown} error Whether it is only that somebody has left. */
export const isAborted = (error) => error instanceof DOMException && error.name === "AbortError";

/** What statuses mean, where whoever answered did not say it in words of its own. (ZE-X5) @type {Record<number, [string, string]>} */
const STATUSES = {
  401: ["You are not signed in.", "Sign in again; what you have typed stays."],
  403: ["You may not do this.", "An administrator of your workspace can change that."],
  413: ["That is too large.", "Send less at a time."],
  429: ["That was too much at once.", "Try again in a moment."],
  502: ["The server is not there.", "It is starting or stopping; try again in a moment."],
  503: ["The server is not ready.", "It is starting or stopping; try again in a moment."],
  504: ["The server took too long to answer.", "Try again; nothing that was recorded is lost."],
};

/** @param {unknown} error Whether a request may have been carried out all the same, so that its key is to be kept. */
export const isOpen = (error) => !(error instanceof Problem) || error.status === 202 || error.status >= 500 || error.code === "key_running";

/** What to tell a person about an error. @param {unknown} error @returns {{title: string, hint: string}} */
export function told(error) {
  if (error instanceof Problem) {
    const [title, hint] = STATUSES[error.status] ?? ["", ""];
    if (error.code === "insufficient_credit") return { title: "Your credit is used up.", hint: `${error.message}. ${error.hint}` };
    return { title: error.message || title || `The server answered ${error.status}.`, hint: error.hint || hint };
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

/** Gets the next tokens; one request for all who need them. False where the session is over, not where nobody knows. */
export function refresh() {
  refreshing ??= reach(`${BASE}/auth/refresh`, { method: "POST" })
    .then(async (answer) => {
      if (!answer.ok && ![401, 403].includes(answer.status)) throw await problemOf(answer);
      return answer.ok;
    })
    .finally(() => (refreshing = null));
  return refreshing;
}

/** Waits until somebody is signed in. @param {AbortSignal} stop */
export const signedIn = (stop) =>
  new Promise((resolve, reject) => {
    const end = expired.subscribe((times) => {
      if (times === 0) leave(resolve);
    });
    const aborted = () => leave(() => reject(new DOMException("left", "AbortError")));
    /** @param {(value?: any) => void} then */
    function leave(then) {
      // The signal tells its value before it has said how to stop that.
      queueMicrotask(() => end());
      stop.removeEventListener("abort", aborted);
      then();
    }
    stop.addEventListener("abort", aborted);
    if (stop.aborted) aborted();
  });

/** A request as it is, which tells whether the server was reached. @param {string} url @param {RequestInit} options */
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
 * One request as it is, with a fresh session where the old one is over.
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
    // Something between the page and the server has answered, with a page of its own.
    return new Problem({ status: answer.status });
  }
}

/** @param {unknown} error @param {boolean} repeatable */
function waitOf(error, repeatable) {
  if (error instanceof Unreachable) return repeatable ? 0 : null;
  if (!(error instanceof Problem)) return null;
  // The first try is still worked on, or its input is kept and nothing is known of it yet: the same key asks again.
  if (error.status === 202 || error.code === "key_running") return repeatable ? error.retryAfterMs : null;
  const passes = [429, 502, 503, 504].includes(error.status);
  return passes && (repeatable || error.status === 429) ? error.retryAfterMs : null;
}

/**
 * @typedef {{body?: unknown, stop?: AbortSignal, etag?: string, raw?: BodyInit, once?: boolean | string}} Options
 * `once`: the request carries a key, a new one or this, under which the server carries it out once, so that it can be
 * sent again.
 */

/**
 * A request and its answer, as JSON; null where there is none.
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
      // Also one of 202: the input is kept, but whoever works on it has not answered.
      if (!answer.ok || type.includes("problem+json")) throw await problemOf(answer);
      if (answer.status === 204) return null;
      const value = type.includes("json") ? await answer.json() : await answer.text();
      const etag = answer.headers.get("etag");
      return etag && value && typeof value === "object" && !Array.isArray(value) ? Object.assign(value, { etag }) : value;
    } catch (error) {
      const least = waitOf(error, repeatable);
      // Whoever is to wait longer than that is told so, and decides.
      if (least === null || least > LONGEST_WAIT_MS || tries >= RETRIES) throw error;
      await wait(Math.max(least, Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries)), options.stop);
    }
  }
}

/** @param {string} path @param {Options} [options] */
export const get = (path, options) => call("GET", path, options);
/** Entries of a list that are read at once. */
const MOST_AT_ONCE = 200;

/**
 * A list whole, however many pages it has.
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

/** A query string of what is given. @param {Record<string, string | number | boolean | null | undefined>} values */
export function query(values) {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined && value !== null && value !== "") all.set(name, String(value));
  const text = all.toString();
  return text ? `?${text}` : "";
}
