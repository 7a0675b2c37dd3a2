// Messages that are not sent yet: kept for each person in this tab, over a reload, until the server has taken them.

import { me } from "./session.js";

const START = "windlass.draft.";

/**
 * @typedef {{text: string, model: string | null, mode: string | null, options: object, key: string}} Sent
 * What was sent and perhaps has arrived, with its key: sent again as it was, the server carries it out once.
 */

/** @param {string} name of the conversation */
const place = (name) => `${START}${me.value?.id ?? ""}.${name}`;

/** @param {string} name @returns {{text: string, sent: Sent | null}} */
export function draftOf(name) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(place(name)) ?? "null");
    if (typeof kept?.text === "string") return { text: kept.text, sent: kept.sent ?? null };
  } catch {
    // A browser that keeps nothing has no drafts.
  }
  return { text: "", sent: null };
}

/** @param {string} name @param {string} text nothing forgets it @param {Sent | null} [sent] */
export function keepDraft(name, text, sent = null) {
  try {
    if (text) sessionStorage.setItem(place(name), JSON.stringify({ text, sent }));
    else sessionStorage.removeItem(place(name));
  } catch {
    // A browser that keeps nothing forgets drafts.
  }
}
