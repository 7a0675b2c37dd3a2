// Messages that were sent and are not heard of yet.

import { post } from "../lib/api.js";
import { signal } from "../lib/html.js";
import { forget, upload } from "./outgoing.js";

/** @typedef {{key: string, id: string, text: string, state: string}} Sent `id`: empty until the server has taken it; `state`: how far its files are */

/** Those of one conversation, in the order in which they were sent. */
export class Sending {
  /** @param {string} thread @param {(message: string) => boolean} isHeard whether a message is shown by now */
  constructor(thread, isHeard) {
    this.path = `/threads/${thread}/messages`;
    this.isHeard = isHeard;
    /** @type {import("../../vendor/signals.js").Signal<Sent[]>} */
    this.all = signal([]);
  }

  /** A message is heard of, perhaps before the server has answered under which id it took it. @param {string} id @param {string} text */
  heard(id, text) {
    const known = this.all.value.find((one) => one.id === id) ?? this.all.value.find((one) => one.id === "" && one.text === text);
    if (known) this.all.value = this.all.value.filter((one) => one !== known);
  }

  /** @param {string} key @param {Partial<Sent>} change */
  change(key, change) {
    this.all.value = this.all.value.map((one) => (one.key === key ? { ...one, ...change } : one));
  }

  /** Sends a message, which is shown while its files go up. @param {string} text @param {object} more @param {string} key under which it is sent once @param {File[]} [files] */
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
