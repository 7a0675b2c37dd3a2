// What goes with a message: the time zone of whoever sends it, and files, which go up before it.

import { put, remove } from "../lib/api.js";

/** The time zone, so that the model is told the time; nothing where the browser does not know it. @returns {{timezone?: string}} */
export function zone() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return timeZone && timeZone !== "Etc/Unknown" ? { timezone: timeZone } : {};
}

/** @param {File} file */
const place = (file) => `/files/${encodeURIComponent(file.name)}`;

/**
 * Brings files to where a message can take them from, and tells how far that is.
 * @param {File[]} files @param {(words: string) => void} tell
 * @returns {Promise<{attachments?: {upload: string}[]}>}
 */
export async function upload(files, tell) {
  for (const [at, file] of files.entries()) {
    tell(files.length > 1 ? `uploading ${at + 1} of ${files.length}…` : "uploading…");
    await put(place(file), undefined, { raw: file });
  }
  tell("");
  return files.length > 0 ? { attachments: files.map((file) => ({ upload: file.name })) } : {};
}

/** Takes away what a message has its own copy of by now. One that stays is written over by the next of its name. @param {File[]} files */
export const forget = (files) => Promise.all(files.map((file) => remove(place(file)).catch(() => {})));
