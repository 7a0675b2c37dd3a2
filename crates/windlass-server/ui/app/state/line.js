// The queued messages of a conversation, and the operations on them. (SK-U6, ZE-P7)

import { get, patch, post, remove } from "../lib/api.js";
import { signal } from "../lib/html.js";
import { textOf } from "./entry.js";

/**
 * @typedef {{id: string, seq: number, at: number, by: string, blocks: any[], text: string, place: string}} Waiting
 * `place`: when it is delivered, `after_step`, `after_run` or `after_cancel`; empty until `places` has read it.
 */

/** The queue of one conversation, in order of delivery. */
export class Line {
  /** @param {string} thread @param {AbortSignal} stop */
  constructor(thread, stop) {
    this.path = `/threads/${thread}/queue`;
    this.stop = stop;
    /** @type {import("../../vendor/signals.js").Signal<Waiting[]>} */
    this.waiting = signal([]);
  }

  /** @param {string} id */
  find(id) {
    return this.waiting.value.find((one) => one.id === id);
  }

  /** @param {any} update @param {{seq: number, at: number}} when */
  add(update, when) {
    if (this.find(update.id)) return;
    const { message, by, place } = update.queued;
    this.waiting.value = [...this.waiting.value, { id: update.id, seq: when.seq, at: when.at, by, place, blocks: message.blocks, text: textOf(message.blocks) }];
  }

  /** @param {string} id */
  drop(id) {
    this.waiting.value = this.waiting.value.filter((one) => one.id !== id);
  }

  /** @param {string} id @param {any[]} blocks */
  change(id, blocks) {
    this.waiting.value = this.waiting.value.map((one) => (one.id === id ? { ...one, blocks, text: textOf(blocks) } : one));
  }

  /** Moves a message to the front: the message is delivered when the cancelled run has ended. @param {string} id */
  promote(id) {
    const first = this.find(id);
    if (first) this.waiting.value = [{ ...first, place: "after_cancel" }, ...this.waiting.value.filter((one) => one !== first)];
  }

  /** Reads the delivery time (`place`) of each message, which the list of messages does not contain. */
  async places() {
    if (this.waiting.value.every((one) => one.place)) return;
    const page = await get(this.path, { stop: this.stop }).catch(() => ({ data: [] }));
    const places = new Map(page.data.map((/** @type {any} */ one) => [one.id, one.place]));
    this.waiting.value = this.waiting.value.map((one) => ({ ...one, place: one.place || (places.get(one.id) ?? "") }));
  }

  /** @param {string} id @param {string} text */
  edit(id, text) {
    return patch(`${this.path}/${id}`, { message: text });
  }

  /** @param {string} id */
  withdraw(id) {
    return remove(`${this.path}/${id}`);
  }

  /** @param {string} id */
  sendNow(id) {
    return post(`${this.path}/${id}/send`);
  }
}
