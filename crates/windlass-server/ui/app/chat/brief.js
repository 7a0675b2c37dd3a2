// A call's most informative argument in short form, also while the model is still writing the arguments.

import { isRaw, parse } from "../lib/exact.js";

/** Maximum length of the shown text, in characters. */
const MOST = 120;
const TELLING = ["file_path", "path", "command", "pattern", "url", "query", "name"];
/** Finds the value of a `TELLING` argument in incomplete JSON. */
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

/**
 * Returns a summary of incomplete arguments: a `TELLING` argument, otherwise the end of the text.
 * @param {string} args
 */
export function growing(args) {
  const [, begun = ""] = BEGUN.exec(args.slice(0, 2000)) ?? [];
  return begun ? begun.slice(0, MOST) : args.slice(-MOST / 2);
}
