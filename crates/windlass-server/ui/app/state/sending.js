// Messages that were sent, but whose event has not arrived yet.

import { post } from "../lib/api.js";
import { signal } from "../lib/html.js";
import { forget, upload } from "./outgoing.js";

/** @typedef {{key: string, id: string, text: string, state: string}} Sent `id`: empty until the server has accepted it; `state`: progress of its uploads */

/** The pending messages of one conversation, in the order of sending. */
export class Sending {
  /** @param {string} thread @param {(message: string) => boolean} isHeard whether a message is already shown */
  constructor(thread, isHeard) {
    this.path = `/threads/${thread}/messages`;
    this.isHeard = isHeard;
    /** @type {import("../../vendor/signals.js").Signal<Sent[]>} */
    this.all = signal([]);
  }

  /**
   * Handles the event of a message, which may arrive before the response that contains the message's id.
   * @param {string} id @param {string} text
   */
  heard(id, text) {
    const known = this.all.value.find((one) => one.id === id) ?? this.all.value.find((one) => one.id === "" && one.text === text);
    if (known) this.all.value = this.all.value.filter((one) => one !== known);
  }

  /** @param {string} key @param {Partial<Sent>} change */
  change(key, change) {
    this.all.value = this.all.value.map((one) => (one.key === key ? { ...one, ...change } : one));
  }

  /** Sends a message, which is shown while its files are uploaded. @param {string} text @param {object} more @param {string} key the idempotency key @param {File[]} [files] */
  async send(text, more, key, files = []) {
    this.all.value = [...this.all.value, { key, id: "", text, state: "" }];
    try {
      const attached = await upload(files, (state) => this.change(key, { state }));
      const sent = await post(this.path, { message: text, ...more, ...attached }, { once: key });
      this.change(key, { id: sent.message });
      if (this.isHeard(sent.message)) this.heard(sent.message, text);
    } catch (error) {
      this.all.value = this.all.value.filter((one) => one.key !== key);
      throw error;
    }
    await forget(files);
  }
}
