// The additions to a message: the sender's time zone, and files, which are uploaded first.

import { put, remove } from "../lib/api.js";

/**
 * Returns the time zone, for the time in the prompt. Empty if the browser does not know the time zone.
 * @returns {{timezone?: string}}
 */
export function zone() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return timeZone && timeZone !== "Etc/Unknown" ? { timezone: timeZone } : {};
}

/** @param {File} file */
const place = (file) => `/files/${encodeURIComponent(file.name)}`;

/**
 * Uploads files so that a message can attach them, and reports the progress.
 * @param {File[]} files @param {(words: string) => void} tell
 * @returns {Promise<{attachments?: {upload: string}[]}>}
 */
export async function upload(files, tell) {
  for (const [at, file] of files.entries()) {
    tell(files.length > 1 ? `Uploading ${at + 1} of ${files.length}…` : "Uploading…");
    await put(place(file), undefined, { raw: file });
  }
  tell("");
  return files.length > 0 ? { attachments: files.map((file) => ({ upload: file.name })) } : {};
}

/**
 * Deletes uploads after the message has its copies. If an upload remains, the next upload with its name overwrites it.
 * @param {File[]} files
 */
export const forget = (files) => Promise.all(files.map((file) => remove(place(file)).catch(() => {})));
