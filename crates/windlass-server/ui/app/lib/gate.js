// The reason of a gate's verdict, as a sentence.

/** @type {Record<string, string>} */
const REASONS = {
  annotations: "No policy rule matches; the tool's annotations decide.",
  allowlist: "The tool is on the allow list.",
  "auto-run": "Auto-run allows calls that are not destructive.",
  hook: "A hook of the host program decided.",
};

/**
 * Returns the reason of a verdict.
 * @param {string} by from the journal: a key above, `grant …`, `mode …`, `error: …`, or a rule's name
 */
export function because(by) {
  if (REASONS[by]) return REASONS[by];
  if (by.startsWith("grant ")) return "A grant allows it.";
  if (by.startsWith("mode ")) return `The ${by.slice("mode ".length)} mode does not allow it.`;
  if (by.startsWith("error: ")) return `A policy rule could not be evaluated: ${by.slice("error: ".length)}.`;
  return `Policy rule: “${by}”.`;
}
