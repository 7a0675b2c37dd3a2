// Going back to before a message, with the files of then. Nothing is done until the next message is sent. (ZE-P9)

import { post } from "../lib/api.js";
import { signal } from "../lib/html.js";
import { before } from "./journal.js";

/**
 * @typedef {{seq: number, at: number, files: {path: string, fate: string}[], unseen: number}} Plan
 * The message from which on, the event after which a fork begins, what becomes of files, and the calls of which nothing is known.
 */

/** What one conversation is to be rolled back to. */
export class Rollback {
  /** @param {string} thread */
  constructor(thread) {
    this.thread = thread;
    /** @type {import("../../vendor/signals.js").Signal<Plan | null>} */
    this.plan = signal(null);
  }

  /** Looks what would become of files. @param {number} seq of the message */
  async look(seq) {
    const at = await before(this.thread, seq);
    const would = await post(`/threads/${this.thread}/files/restore`, { at, mode: "preview" });
    const files = would.files.filter((/** @type {any} */ file) => file.fate !== "unchanged");
    this.plan.value = { seq, at, files, unseen: would.unseen_total };
  }

  /** Puts files back, and makes the conversation that goes on from before the message. @param {Plan} plan @returns {Promise<string>} */
  async carryOut(plan) {
    await post(`/threads/${this.thread}/files/restore`, { at: plan.at, mode: "spare" });
    return (await post(`/threads/${this.thread}/fork`, { at: plan.at })).id;
  }
}
