// Messages that are not sent yet: kept for each person in this tab, over a reload, until the server has taken them.

import { me } from "./session.js";

const START = "windlass.draft.";

/** @param {string} name of the conversation */
const key = (name) => `${START}${me.value?.id ?? ""}.${name}`;

/** @param {string} name */
export function draftOf(name) {
  try {
    return sessionStorage.getItem(key(name)) ?? "";
  } catch {
    return "";
  }
}

/** @param {string} name @param {string} text nothing forgets it */
export function keepDraft(name, text) {
  try {
    if (text) sessionStorage.setItem(key(name), text);
    else sessionStorage.removeItem(key(name));
  } catch {
    // A browser that keeps nothing forgets drafts.
  }
}
