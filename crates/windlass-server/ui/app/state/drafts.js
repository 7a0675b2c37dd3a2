// Messages that the server has not accepted yet, per user and browser tab. Their texts survive a reload; their files do
// not.

import { me } from "./session.js";

const START = "windlass.draft.";

/**
 * @typedef {{text: string, model: string | null, mode: string | null, options: object, key: string}} Sent
 * A message that may have reached the server, or was queued behind one, with its idempotency key. If it is sent again
 * unchanged, the server executes it once.
 */

/** @param {string} name of the conversation */
const place = (name) => `${START}${me.value?.id ?? ""}.${name}`;

/** @type {Map<string, File[]>} */
const files = new Map();

/** @param {string} name @returns {File[]} */
export const filesOf = (name) => files.get(place(name)) ?? [];

/** @param {string} name @param {File[]} some an empty list deletes them */
export function keepFiles(name, some) {
  if (some.length > 0) files.set(place(name), some);
  else files.delete(place(name));
}

/** @param {string} name @returns {{text: string, sent: Sent[]}} `sent`: the messages that the text begins with */
export function draftOf(name) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(place(name)) ?? "null");
    if (typeof kept?.text === "string") return { text: kept.text, sent: [kept.sent ?? []].flat() };
  } catch {
    // Without session storage, there are no drafts.
  }
  return { text: "", sent: [] };
}

/** @param {string} name @param {string} text an empty text deletes the draft @param {Sent[]} [sent] */
export function keepDraft(name, text, sent = []) {
  try {
    if (text) sessionStorage.setItem(place(name), JSON.stringify({ text, sent }));
    else sessionStorage.removeItem(place(name));
  } catch {
    // Without session storage drafts are not kept.
  }
}

/** Appends a text to a draft. @param {string} name @param {string} text */
export function addToDraft(name, text) {
  const draft = draftOf(name);
  keepDraft(name, [draft.text, text].filter(Boolean).join("\n"), draft.sent);
}

/**
 * Splits a text into the unchanged messages at its start, and the rest, which is a new message.
 * @template {Sent & {files: File[]}} S @param {S[]} sent @param {{text: string, files: File[]}} now
 * @param {(one: S) => boolean} fits whether a message can be sent again unchanged
 * @returns {{again: S[], text: string, files: File[]}}
 */
export function parted(sent, { text, files }, fits) {
  /** @type {S[]} */
  const again = [];
  for (const one of sent) {
    const begins = text.trimEnd() === one.text.trimEnd() ? files.length === one.files.length : text.startsWith(`${one.text}\n`);
    if (!begins || !fits(one) || !one.files.every((file, at) => file === files[at])) break;
    again.push(one);
    text = text.slice(one.text.length + 1);
    files = files.slice(one.files.length);
  }
  return { again, text, files };
}
