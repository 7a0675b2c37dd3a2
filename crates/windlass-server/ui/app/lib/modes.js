// The modes of a run. (ZE-H12)

/** Descriptions of the modes by name. @type {Record<string, string>} */
export const MODES = { agent: "can make changes", ask: "read-only", plan: "read-only, writes a plan" };
