// Summaries of open interrupts.

import { visible } from "../lib/exact.js";
import { limitName } from "../lib/limits.js";

/** Returns a one-line summary of an open interrupt. @param {import("./inbox.js").Interrupt} open */
export function summary(open) {
  switch (open.kind) {
    case "approval":
      return `Allow ${open.tool}${open.server ? ` (server ${open.server})` : ""} to ${effectOf(open.preview)}?`;
    case "hook":
      return `${open.tool}${open.server ? ` (server ${open.server})` : ""}: ${open.reason}`;
    case "question":
      return open.question?.summary || "Question";
    case "sign_in":
      return `Sign in to ${open.server}`;
    case "in_doubt":
      return `Did ${open.tool}${open.server ? ` (server ${open.server})` : ""} complete?`;
    case "limit":
      return `Limit reached: ${limitName(open.limit)}`;
    case "handoff":
      return `Waiting for ${open.runner}`;
    default:
      return open.kind;
  }
}

/**
 * Returns the effect of a call: the file that it would create or change if its preview is a file's diff, otherwise
 * "run".
 * @param {unknown} preview
 */
function effectOf(preview) {
  const head = typeof preview === "string" ? /^--- (.*)\n\+\+\+ b\/(.*) \(\d+ bytes/.exec(preview) : null;
  return head ? `${head[1] === "/dev/null" ? "create" : "change"} ${visible(head[2])}` : "run";
}
