// Notifies a user whose page is hidden that a run has ended or failed.

import { get, query } from "../lib/api.js";
import { effect } from "../lib/html.js";
import { mayNotify, notify } from "./notify.js";
import { threads } from "./threads.js";

/** The last known status of each conversation. @type {Map<string, string>} */
const doing = new Map();

/** Watches the status of conversations. @returns {() => void} stops watching */
export const keep = () =>
  effect(() => {
    for (const { id, title, status } of threads.value) {
      const before = doing.get(id) ?? "idle";
      doing.set(id, status);
      if (status === "idle" && before !== "idle" && document.hidden && mayNotify()) tell(id, title).catch(() => {});
    }
  });

/** @param {string} thread @param {string | null} title */
async function tell(thread, title) {
  const run = (await get(`/runs${query({ thread, limit: 1 })}`)).data[0];
  // A cancelled run needs no notification, because a user stopped it. `state/inbox.js` notifies of interrupts.
  const how = { done: "The run is done.", failed: "The run failed." }[/** @type {string} */ (run?.status)];
  if (!how) return;
  notify({ title: title || "Untitled conversation", body: how, tag: run.id, address: `/chat/${thread}` });
}
