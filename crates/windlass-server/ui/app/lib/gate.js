// What the gate goes by besides rules, in words.

/** @type {Record<string, string>} */
const REASONS = {
  annotations: "no rule fits, and what the tool says of itself counts",
  allowlist: "the tool is on the allow list",
  "auto-run": "everything runs that is not marked as destructive",
  hook: "the program around Windlass says so",
};

/** What decided, as a sentence. @param {string} by as the journal has it */
export function because(by) {
  if (REASONS[by]) return `Because ${REASONS[by]}.`;
  return by.startsWith("grant ") ? "Because of a grant." : `Because of “${by}”.`;
}
