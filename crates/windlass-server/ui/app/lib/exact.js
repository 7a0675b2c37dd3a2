// JSON as it was written: numbers keep their digits, and what cannot be seen in a text is shown as an escape.

/** The part of JavaScript that keeps a number's text; older browsers lack it. */
const Native = /** @type {{rawJSON?: (text: string) => any, isRawJSON?: (value: unknown) => boolean}} */ (/** @type {unknown} */ (JSON));

/** Control characters but for tabs and line breaks, marks that turn the direction of a text, and what has no width. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}]/gu;

/** A text in which everything can be seen. @param {string} text */
export const visible = (text) => text.replace(UNSEEN, (sign) => [...Array(sign.length).keys()].map((at) => `\\u${sign.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""));

/** Whether a value is a number that JavaScript would round. @param {unknown} value @returns {value is {rawJSON: string}} */
export const isRaw = (value) => Native.isRawJSON?.(value) ?? false;

/**
 * The value of a JSON text; a number that JavaScript would round is kept as its text, and written as that again.
 * @param {string} text
 * @returns {any}
 */
export function parse(text) {
  const { rawJSON } = Native;
  if (!rawJSON) {
    const value = JSON.parse(text);
    if (/\d{16}/.test(text)) throw new Error("this browser would round the numbers in it; a newer one keeps them");
    return value;
  }
  /** @param {string} _ @param {any} value @param {{source: string}} [context] */
  const exact = (_, value, context) => (typeof value === "number" && context && String(value) !== context.source ? rawJSON(context.source) : value);
  return JSON.parse(text, /** @type {any} */ (exact));
}

/** A text longer than this stays a text. */
const EMBEDDED_MAX = 500_000;

/** The object or list that a text is as JSON, with its numbers as they are written; null of any other text. @param {string} text @returns {any} */
export function embedded(text) {
  if (!/^\s*[[{]/.test(text) || text.length > EMBEDDED_MAX) return null;
  try {
    return parse(text);
  } catch {
    return null;
  }
}

/** A value as a text with indents, in which everything can be seen. @param {unknown} value */
export const written = (value) => visible(JSON.stringify(value, null, 2));
