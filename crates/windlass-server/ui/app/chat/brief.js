// The argument of a call that says most, in a few words; of one that is being written, as far as it is there.

import { isRaw, parse } from "../lib/exact.js";

/** Characters that are shown. */
const MOST = 120;
const TELLING = ["file_path", "path", "command", "pattern", "url", "query", "name"];
/** The beginning of one of them in a text that is no JSON yet. */
const BEGUN = new RegExp(`"(?:${TELLING.join("|")})"\\s*:\\s*"((?:[^"\\\\]|\\\\.)*)`);

/** @param {string} args */
export function brief(args) {
  try {
    const values = parse(args);
    const telling = TELLING.map((name) => values[name]).find((value) => typeof value === "string");
    const first = telling ?? Object.values(values).find((value) => typeof value === "string" || typeof value === "number" || isRaw(value));
    return first === undefined ? "" : (isRaw(first) ? first.rawJSON : String(first)).slice(0, MOST);
  } catch {
    return "";
  }
}

/** The same of arguments that grow: what tells most, else what was written last. @param {string} args */
export function growing(args) {
  const [, begun = ""] = BEGUN.exec(args.slice(0, 2000)) ?? [];
  return begun ? begun.slice(0, MOST) : args.slice(-MOST / 2);
}
