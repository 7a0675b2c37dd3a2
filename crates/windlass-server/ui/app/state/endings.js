// Tells somebody who looks elsewhere that a run of theirs has ended or failed.

import { get, query } from "../lib/api.js";
import { effect } from "../lib/html.js";
import { mayNotify, notify } from "./notify.js";
import { threads } from "./threads.js";

/** What each conversation did when it was last heard of. @type {Map<string, string>} */
const doing = new Map();

/** Heeds what conversations do. @returns {() => void} what ends that */
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
  // What was stopped, somebody has stopped; what asks is told by itself.
  const how = { done: "The agent has answered.", failed: "The run has failed." }[/** @type {string} */ (run?.status)];
  if (!how) return;
  notify({ title: title || "A conversation", body: how, tag: run.id, address: `/chat/${thread}` });
}
