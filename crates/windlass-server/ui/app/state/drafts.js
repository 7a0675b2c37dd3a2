// Messages that are not sent yet: kept for each person in this tab, until the server has taken them; their words over a
// reload too, their files until then.

import { me } from "./session.js";

const START = "windlass.draft.";

/**
 * @typedef {{text: string, model: string | null, mode: string | null, options: object, key: string}} Sent
 * What was sent and perhaps has arrived, or was to be sent behind that, with its key: sent again as it was, the server
 * carries it out once.
 */

/** @param {string} name of the conversation */
const place = (name) => `${START}${me.value?.id ?? ""}.${name}`;

/** @type {Map<string, File[]>} */
const files = new Map();

/** @param {string} name @returns {File[]} */
export const filesOf = (name) => files.get(place(name)) ?? [];

/** @param {string} name @param {File[]} some none forgets them */
export function keepFiles(name, some) {
  if (some.length > 0) files.set(place(name), some);
  else files.delete(place(name));
}

/** @param {string} name @returns {{text: string, sent: Sent[]}} `sent`: what the text begins with, piece by piece */
export function draftOf(name) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(place(name)) ?? "null");
    if (typeof kept?.text === "string") return { text: kept.text, sent: [kept.sent ?? []].flat() };
  } catch {
    // A browser that keeps nothing has no drafts.
  }
  return { text: "", sent: [] };
}

/** @param {string} name @param {string} text nothing forgets it @param {Sent[]} [sent] */
export function keepDraft(name, text, sent = []) {
  try {
    if (text) sessionStorage.setItem(place(name), JSON.stringify({ text, sent }));
    else sessionStorage.removeItem(place(name));
  } catch {
    // A browser that keeps nothing forgets drafts.
  }
}

/** Puts a text behind what a draft has. @param {string} name @param {string} text */
export function addToDraft(name, text) {
  const draft = draftOf(name);
  keepDraft(name, [draft.text, text].filter(Boolean).join("\n"), draft.sent);
}

/**
 * What a text begins with that was sent already, and what was written behind it, which is a message of its own.
 * @template {Sent & {files: File[]}} S
 * @param {S[]} sent @param {{text: string, files: File[]}} now @param {(one: S) => boolean} fits whether it is to be sent as it was
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
