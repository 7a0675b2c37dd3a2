// A new conversation that continues another one from an earlier event, with the files of then: fork, try again, edit and roll
// back. The other conversation and its folder stay as they are. (ZE-P9)

import { isOpen, post } from "../lib/api.js";
import { signal } from "../lib/html.js";
import { plural } from "../lib/words.js";
import { keepDraft, keepFiles } from "./drafts.js";
import { before } from "./journal.js";
import { done, failed, warn } from "./notices.js";
import { forget } from "./outgoing.js";

/** Names of files in a notice. */
const NAMED = 3;

/**
 * @typedef {{folder: "copied" | "shared" | "empty", restored: {path: string, fate: string}[],
 *   not_restored: {path: string, reason: string, why: string}[], not_restored_total: number, unseen_total: number}} Files
 * What the folder of the new conversation holds.
 * @typedef {{seq: number, at: number, files: Files}} Plan
 * The message from which on messages are left out, the event after which the new conversation begins, and its files.
 * @typedef {{text: string, options: any, key: string, files?: any[]}} First
 * The first message of the new conversation; `files`: those that were uploaded for it.
 */

/** Makes the conversation that continues after an event. @param {string} thread @param {number} at @returns {Promise<string>} */
export async function fork(thread, at) {
  const made = await post(`/threads/${thread}/fork`, { at });
  /** @type {Files} */
  const { folder, not_restored: others, not_restored_total: total } = made.files;
  if (total > 0) {
    const names = others.slice(0, NAMED).map((file) => file.path).join(", ");
    const all = `${names}${total > NAMED ? " and others" : ""}`;
    const list = others.map((file) => `${file.path}: ${file.why}`);
    if (total > others.length) list.push(`and ${total - others.length} more`);
    warn(`${plural(total, "file")} may not be as at this point: ${all}. Commands and uploads change files without a record.`, list);
  }
  if (folder === "shared") done("Both conversations work in the same folder. Its files stay as they are now.");
  return made.id;
}

/** Makes it, and sends its first message. @param {string} thread @param {number} at @param {First} first @returns {Promise<string>} */
export async function continueWith(thread, at, { text, options, key, files }) {
  const made = await fork(thread, at);
  // A message that cannot be sent waits in the field of the conversation that was made for it.
  keepDraft(made, text, [{ text, model: null, mode: null, options, key }]);
  try {
    await post(`/threads/${made}/messages`, { message: text, ...options }, { once: key });
    keepDraft(made, "");
    if (files) await forget(files);
  } catch (error) {
    failed(error);
    // A rejected message is sent again with its files; one that may have arrived names them.
    if (files && !isOpen(error)) {
      keepDraft(made, text);
      keepFiles(made, files);
    }
  }
  return made;
}

/** What one conversation is to be rolled back to. Nothing is done until the next message is sent. */
export class Rollback {
  /** @param {string} thread */
  constructor(thread) {
    this.thread = thread;
    /** @type {import("../../vendor/signals.js").Signal<Plan | null>} */
    this.plan = signal(null);
  }

  /** Looks what the new conversation would have. @param {number} seq of the message */
  async look(seq) {
    const at = await before(this.thread, seq);
    const { files } = await post(`/threads/${this.thread}/fork`, { at, preview: true });
    this.plan.value = { seq, at, files };
  }
}
