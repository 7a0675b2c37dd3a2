// Creates a conversation that continues another conversation from an earlier event, with the files at that time: fork,
// try again, edit and roll back. The other conversation and its folder do not change. (ZE-P9)

import { isOpen, post } from "../lib/api.js";
import { signal } from "../lib/html.js";
import { plural } from "../lib/words.js";
import { keepDraft, keepFiles } from "./drafts.js";
import { before } from "./journal.js";
import { done, failed, warn } from "./notices.js";
import { forget } from "./outgoing.js";

/** Maximum number of files that a notice names. */
const NAMED = 3;

/**
 * @typedef {{folder: "copied" | "shared" | "empty", restored: {path: string, fate: string}[],
 *   not_restored: {path: string, reason: string, why: string}[], not_restored_total: number, unseen_total: number}} Files
 * The folder of the new conversation.
 * @typedef {{seq: number, at: number, files: Files}} Plan
 * `seq`: the first message that is left out; `at`: the event after which the new conversation starts.
 * @typedef {{text: string, options: any, key: string, files?: any[]}} First
 * The first message of the new conversation; `files`: the files that were uploaded for it.
 */

/** Creates the conversation that continues after an event. @param {string} thread @param {number} at @returns {Promise<string>} */
export async function fork(thread, at) {
  const made = await post(`/threads/${thread}/fork`, { at });
  /** @type {Files} */
  const { folder, not_restored: others, not_restored_total: total } = made.files;
  if (total > 0) {
    const names = others.slice(0, NAMED).map((file) => file.path).join(", ");
    const all = `${names}${total > NAMED ? " and others" : ""}`;
    const list = others.map((file) => `${file.path}: ${file.why}`);
    if (total > others.length) list.push(`and ${total - others.length} more`);
    warn(`${plural(total, "file")} may differ from this point: ${all}. Commands and uploads change files without a record.`, list);
  }
  if (folder === "shared") done("Both conversations share one folder. Its files were not changed.");
  return made.id;
}

/**
 * Creates the conversation, and sends its first message.
 * @param {string} thread @param {number} at @param {First} first @returns {Promise<string>}
 */
export async function continueWith(thread, at, { text, options, key, files }) {
  const made = await fork(thread, at);
  // Keep the message as the draft of the new conversation, in case it cannot be sent.
  keepDraft(made, text, [{ text, model: null, mode: null, options, key }]);
  try {
    await post(`/threads/${made}/messages`, { message: text, ...options }, { once: key });
    keepDraft(made, "");
    if (files) await forget(files);
  } catch (error) {
    failed(error);
    // A rejected message is sent again with its files. If the message may have arrived, it already refers to the files.
    if (files && !isOpen(error)) {
      keepDraft(made, text);
      keepFiles(made, files);
    }
  }
  return made;
}

/** A planned rollback of a conversation. It takes effect with the next message. */
export class Rollback {
  /** @param {string} thread */
  constructor(thread) {
    this.thread = thread;
    /** @type {import("../../vendor/signals.js").Signal<Plan | null>} */
    this.plan = signal(null);
  }

  /** Plans the rollback and previews its files. @param {number} seq of the message */
  async look(seq) {
    const at = await before(this.thread, seq);
    const { files } = await post(`/threads/${this.thread}/fork`, { at, preview: true });
    this.plan.value = { seq, at, files };
  }
}
