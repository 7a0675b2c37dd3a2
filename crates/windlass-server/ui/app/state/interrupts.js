// Open interrupts in words.

import { limitName } from "../lib/limits.js";

/** A one-line summary. @param {import("./inbox.js").Interrupt} open */
export function summary(open) {
  switch (open.kind) {
    case "approval":
      return `May ${open.tool}${open.server ? ` (server ${open.server})` : ""} run?`;
    case "hook":
      return `${open.tool}${open.server ? ` (server ${open.server})` : ""}: ${open.reason}`;
    case "question":
      return open.question?.summary || "A question";
    case "sign_in":
      return `Sign in at ${open.server}`;
    case "in_doubt":
      return `Was ${open.tool}${open.server ? ` (server ${open.server})` : ""} done?`;
    case "limit":
      return `A limit is reached: ${limitName(open.limit)}`;
    case "handoff":
      return `Waits for ${open.runner}`;
    default:
      return open.kind;
  }
}
