// A call of a tool: what is asked of it, how far it is, and what came of it. (SK-U4)

import { html, useState } from "../lib/html.js";
import { full, length, tidyJson } from "../lib/words.js";
import { Icon } from "../view/icon.js";
import { Result } from "./result.js";

/** @type {Record<string, [string, string]>} */
const STANDINGS = {
  waiting: ["clock", "waits"],
  asking: ["warn", "waits for a word"],
  running: ["tool", "runs"],
  sleeping: ["clock", "goes on later"],
  in_doubt: ["warn", "nobody knows whether it was done"],
  done: ["check", "done"],
  failed: ["cross", "failed"],
  denied: ["cross", "denied"],
  cancelled: ["cross", "cancelled"],
};

/** @param {{call: import("../state/entry.js").Call, conversation: any}} props */
export function CallCard({ call, conversation }) {
  call.rev.value;
  const standing = call.standing;
  const [icon, words] = STANDINGS[standing] ?? ["tool", standing];
  const asks = conversation?.open.value.some((/** @type {any} */ open) => open.tool === call.tool && open.id.endsWith(`.${call.step}.${call.index}.0`));
  const [open, setOpen] = useState(/** @type {boolean | null} */ (null));
  const shown = open ?? (standing === "running" && call.progress !== "");
  return html`<details class="call" data-standing=${standing} open=${shown} onToggle=${(/** @type {any} */ event) => event.target.open !== shown && setOpen(event.target.open)}>
    <summary>
      <span class="mark" aria-hidden="true">${standing === "running" ? html`<span class="spinner"></span>` : html`<${Icon} name=${icon} size=${16} />`}</span>
      <strong>${call.tool || "a tool"}</strong> <span class="brief">${brief(call.args)}</span>
      <span class="fill"></span>
      <span class="quiet">${standing === "sleeping" && call.until ? `goes on at ${full(call.until)}` : words}${call.durationMs > 0 ? `, ${length(call.durationMs)}` : ""}</span>
    </summary>
    <div class="inside">
      ${call.rule && html`<p class="quiet">Judged by ${call.rule}.${asks ? " It is asked below." : ""}</p>`}
      <h3>Arguments</h3>
      <pre tabindex="0">${tidyJson(call.args)}</pre>
      ${call.progress && standing === "running" && html`<h3>So far</h3><pre tabindex="0">${call.progress}</pre>`}
      ${call.result && html`<h3>Result</h3><${Result} blocks=${call.result} error=${call.error} />`}
    </div>
  </details>`;
}

/** The argument that says most. @param {string} args */
function brief(args) {
  try {
    const values = JSON.parse(args);
    const telling = ["file_path", "path", "command", "pattern", "url", "query", "name"].map((name) => values[name]).find((value) => typeof value === "string");
    const first = telling ?? Object.values(values).find((value) => typeof value === "string" || typeof value === "number");
    return first === undefined ? "" : String(first).slice(0, 120);
  } catch {
    return "";
  }
}
