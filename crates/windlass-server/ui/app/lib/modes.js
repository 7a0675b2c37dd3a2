// What a run may do at all. (ZE-H12)

/** Modes by their names, in words. @type {Record<string, string>} */
export const MODES = { agent: "does things", ask: "only reads, and answers", plan: "reads, and makes a plan" };
