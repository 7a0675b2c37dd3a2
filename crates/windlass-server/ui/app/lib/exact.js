// JSON without loss: numbers keep their digits, and invisible characters appear as escapes.

/** `JSON.rawJSON` keeps the source text of a number; older browsers lack it. */
const Native = /** @type {{rawJSON?: (text: string) => any, isRawJSON?: (value: unknown) => boolean}} */ (/** @type {unknown} */ (JSON));

/** Control characters except tab and line feed, bidirectional marks, and characters without width. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}]/gu;

/** Escapes the invisible characters of a text. @param {string} text */
export const visible = (text) => text.replace(UNSEEN, (sign) => [...Array(sign.length).keys()].map((at) => `\\u${sign.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""));

/**
 * Returns whether a value is a number that JavaScript would round.
 * @param {unknown} value @returns {value is {rawJSON: string}}
 */
export const isRaw = (value) => Native.isRawJSON?.(value) ?? false;

/**
 * Parses JSON. A number that JavaScript would round keeps its source text, even if it is serialized again.
 * @param {string} text @returns {any}
 */
export function parse(text) {
  const { rawJSON } = Native;
  if (!rawJSON) {
    const value = JSON.parse(text);
    if (/\d{16}/.test(text)) throw new Error("this browser would round its numbers; use a newer browser");
    return value;
  }
  /** @param {string} _ @param {any} value @param {{source: string}} [context] */
  const exact = (_, value, context) => (typeof value === "number" && context && String(value) !== context.source ? rawJSON(context.source) : value);
  return JSON.parse(text, /** @type {any} */ (exact));
}

/** Maximum length of a text that is parsed, in characters. */
const EMBEDDED_MAX = 500_000;

/**
 * Returns the object or array that a text contains as JSON, or null for any other text.
 * @param {string} text @returns {any}
 */
export function embedded(text) {
  if (!/^\s*[[{]/.test(text) || text.length > EMBEDDED_MAX) return null;
  try {
    return parse(text);
  } catch {
    return null;
  }
}

/** Serializes a value with indentation and escapes invisible characters. @param {unknown} value */
export const written = (value) => visible(JSON.stringify(value, null, 2));
