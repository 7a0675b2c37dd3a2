// A call of a tool: what is asked of it, how far it is, whose word it waits for, and what came of it. (SK-U4, ZE-H8)

import { html, useState } from "../lib/html.js";
import { full, length } from "../lib/words.js";
import { Arguments } from "../view/arguments.js";
import { Ask } from "../view/ask.js";
import { Icon } from "../view/icon.js";
import { Result } from "./result.js";

/** Where a call stands: its picture and its word. (SK-A11) @type {Record<string, [string, string]>} */
const STANDINGS = {
  waiting: ["clock", "waits its turn"],
  asking: ["warn", "waits for a word"],
  approved: ["check", "approved"],
  running: ["tool", "runs"],
  sleeping: ["clock", "goes on later"],
  in_doubt: ["warn", "nobody knows whether it was done"],
  done: ["check", "done"],
  failed: ["cross", "failed"],
  denied: ["cross", "denied"],
  cancelled: ["cross", "cancelled"],
};

/** What a call waits for that asks, by the kind of what is asked. @type {Record<string, string>} */
const ASKS = {
  approval: "waits for approval",
  hook: "waits for approval",
  question: "waits for an answer",
  sign_in: "waits until somebody has signed in",
  in_doubt: "waits for word whether it was done",
  limit: "waits for word about a limit",
  handoff: "waits for somebody else to carry it out",
};

/** @param {{call: import("../state/entry.js").Call, at: number, conversation: import("../state/conversation.js").Conversation}} props */
export function CallCard({ call, at, conversation }) {
  call.rev.value;
  const standing = call.standing;
  const [icon, words] = STANDINGS[standing] ?? ["tool", standing];
  const open = conversation.open.value;
  const asked = open.find((one) => one.id === call.interrupt);
  const [chosen, choose] = useState(/** @type {boolean | null} */ (null));
  const isOpen = asked !== undefined || (chosen ?? (standing === "running" && call.progress !== ""));
  const waits = standing === "asking" ? ASKS[asked?.kind ?? call.asks] : undefined;
  const told = standing === "sleeping" && call.until ? `goes on at ${full(call.until)}` : (waits ?? words);
  return html`<details class="call" data-standing=${standing} open=${isOpen} onToggle=${(/** @type {any} */ event) => event.target.open !== isOpen && choose(event.target.open)}>
    <summary>
      <span class="mark" aria-hidden="true">${standing === "running" ? html`<span class="spinner"></span>` : html`<${Icon} name=${icon} size=${16} />`}</span>
      <strong>${call.tool || "a tool"}</strong> <span class="brief fill">${brief(call.args)}</span>
      <span class="quiet standing">${told}${call.durationMs > 0 ? `, ${length(call.durationMs)}` : ""}</span>
    </summary>
    ${isOpen && html`<div class="inside">
      ${asked
        ? html`<${Ask} key=${asked.id} open=${asked} isFirst=${asked === open[0]} onAnswered=${() => conversation.ask()} />`
        : html`<h3>Arguments</h3><${Arguments} text=${call.args} />`}
      ${call.progress && standing === "running" && html`<h3>So far</h3><pre tabindex="0">${call.progress}</pre>`}
      ${call.result && html`<h3>${call.error ? "Error" : "Result"}</h3><${Result} thread=${conversation.id} blocks=${call.result} error=${call.error} />`}
      <p class="quiet">${full(call.at || at)}${call.rule && ` · judged by ${call.rule}`}</p>
    </div>`}
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
