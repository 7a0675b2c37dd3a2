// The card of a tool call: its arguments, state, approval and result. (SK-U4, ZE-H8)

import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { parse, visible, written } from "../lib/exact.js";
import { clock, count, full, length } from "../lib/words.js";
import { Arguments } from "../view/arguments.js";
import { Ask } from "../view/ask.js";
import { Changes } from "../view/changes.js";
import { Icon } from "../view/icon.js";
import { brief, growing } from "./brief.js";
import { Asked, Decided, Previewed } from "./decided.js";
import { Result } from "./result.js";

/** Icon and label of each state. (SK-A11) @type {Record<string, [string, string]>} */
const STANDINGS = {
  writing: ["edit", "preparing"],
  waiting: ["clock", "queued"],
  asking: ["warn", "needs input"],
  approved: ["check", "approved"],
  running: ["tool", "running"],
  sleeping: ["clock", "scheduled"],
  in_doubt: ["warn", "outcome unknown"],
  done: ["check", "done"],
  failed: ["cross", "failed"],
  denied: ["cross", "denied"],
  cancelled: ["cross", "cancelled"],
};

/** Label of a call with an open interrupt, by kind. @type {Record<string, string>} */
const ASKS = {
  approval: "needs approval",
  hook: "needs approval",
  question: "needs an answer",
  sign_in: "needs sign-in",
  in_doubt: "outcome unknown: needs review",
  limit: "limit reached",
  handoff: "waiting for another system",
};

/** @param {{call: import("../state/entry.js").Call, at: number, conversation: import("../state/conversation.js").Conversation}} props */
export function CallCard({ call, at, conversation }) {
  call.rev.value;
  const standing = call.standing;
  const [icon, words] = STANDINGS[standing] ?? ["tool", standing];
  const open = conversation.open.value;
  const asked = open.find((one) => one.id === call.interrupt);
  const [unfolded, unfold] = useState(/** @type {boolean | null} */ (null));
  const isOpen = asked !== undefined || (unfolded ?? (standing === "running" && call.progress !== ""));
  // A page of messages may contain only a reference to a long preview. The interrupt contains the whole text.
  const { preview, server } = asked ?? {};
  useEffect(() => {
    if (preview && preview !== call.preview) call.change({ preview });
    if (server && server !== call.server) call.change({ server });
  }, [preview, server]);
  const waits = standing === "asking" ? ASKS[asked?.kind ?? call.asks] : undefined;
  const writes = standing === "writing";
  const until = standing === "sleeping" && call.until ? `resumes at ${full(call.until)}` : undefined;
  const chosen = standing === "done" && call.answered?.selected ? `answered: ${visible(call.answered.selected)}` : undefined;
  const told = writes && call.args ? `${words}, ${count(call.args.length)} characters` : (until ?? waits ?? chosen ?? words);
  const begun = call.at || at;
  return html`<details class="call" data-standing=${standing} open=${isOpen} onToggle=${(/** @type {any} */ event) => event.target.open !== isOpen && unfold(event.target.open)}>
    <summary>
      <span class="mark" aria-hidden="true">${standing === "running" || writes ? html`<span class="spinner"></span>` : html`<${Icon} name=${icon} size=${16} />`}</span>
      <strong>${call.tool || "Tool call"}</strong> ${(server || call.server) && html`<span class="tag clip" title="Tool server">${server || call.server}</span>`} <span class="brief fill">${writes ? growing(call.args) : brief(call.args)}</span>
      <span class="quiet standing">${told}${call.durationMs > 0 ? `, ${length(call.durationMs)}` : ""}</span>
      <time class="quiet wide-only" title=${full(begun)}>${clock(begun)}</time>
    </summary>
    ${isOpen && html`<div class="inside">
      ${asked
        ? html`<${Ask} key=${asked.id} open=${asked} onAnswered=${() => conversation.ask()} />`
        : call.preview
          ? html`<${Previewed} text=${call.preview} /><details><summary>Arguments</summary><${Given} args=${call.args} /></details>`
          : html`<h3>Arguments</h3><${Given} args=${call.args} />`}
      ${call.asked && !asked && html`<${Asked} call=${call} />`}
      ${call.progress && standing === "running" && html`<h3>Output so far</h3><pre tabindex="0">${call.progress}</pre>`}
      ${call.result && html`<h3>${call.error ? "Error" : "Result"}</h3><${Result} thread=${conversation.id} blocks=${call.result} error=${call.error} />`}
      <${Decided} call=${call} at=${begun} />
    </div>`}
  </details>`;
}

/** The arguments of a call; for an edit, the diff of its two texts. @param {{args: string}} props */
function Given({ args }) {
  const edit = useMemo(() => editOf(args), [args]);
  if (!edit) return html`<${Arguments} text=${args} />`;
  return html`<${Changes} before=${edit.before} after=${edit.after} />${edit.others && html`<${Arguments} text=${edit.others} />`}`;
}

/** Returns the two texts of an edit and the other arguments, or null for any other call. @param {string} args */
function editOf(args) {
  if (!args.includes("old_string")) return null;
  try {
    const { old_string: before, new_string: after, ...others } = parse(args);
    if (typeof before !== "string" || typeof after !== "string") return null;
    return { before, after, others: Object.keys(others).length > 0 ? written(others) : "" };
  } catch {
    return null;
  }
}
