// Several calls of one run that need approval: the progress, and buttons that answer all remaining calls. (SK-U5)

import { html, useRef, useState } from "../lib/html.js";
import { plural } from "../lib/words.js";
import { answerAll } from "../state/inbox.js";
import { attempt, failed } from "../state/notices.js";
import { goOn } from "./asks.js";

/** @typedef {import("../state/inbox.js").Interrupt} Interrupt */

/** Returns the interrupts that one answer can close together. @param {Interrupt[]} asks */
const approvals = (asks) => asks.filter((open) => ["approval", "hook"].includes(open.kind) && open.counts);

/** @param {{asks: Interrupt[], onAnswered?: () => void}} props `asks`: open interrupts of one run */
export function Batch({ asks, onAnswered }) {
  const [doing, setDoing] = useState("");
  /** Ids of all interrupts of this run that this component has shown, to count the answered ones. */
  const known = useRef({ run: "", ids: /** @type {Set<string>} */ (new Set()) });
  const calls = approvals(asks);
  const run = calls[0]?.run ?? "";
  if (known.current.run !== run) known.current = { run, ids: new Set() };
  for (const { id } of calls) known.current.ids.add(id);
  const total = known.current.ids.size;
  if (total < 2) return null;
  /** @param {string} kind @param {string} words */
  const all = (kind, words) => async () => {
    setDoing(`${words} ${plural(calls.length, "call")}…`);
    const problems = await attempt(() => answerAll(calls.map((open) => ({ open, answer: { kind } }))));
    problems?.forEach(failed);
    onAnswered?.();
    setDoing("");
    goOn();
  };
  const answered = total - calls.length;
  const tools = [...new Set(calls.map((open) => (open.server ? `${open.tool} (server ${open.server})` : open.tool)))].join(", ");
  return html`<section class="batch row" aria-label="Calls that need approval">
    <span class="fill" role="status">${doing || html`<strong>${plural(calls.length, "call")}</strong> need${calls.length === 1 ? "s" : ""} approval: ${tools}`}</span>
    ${answered > 0 && html`<span class="quiet row"><progress max=${total} value=${answered} aria-label="Answered calls"></progress> ${answered}/${total}</span>`}
    ${calls.length > 1 && html`<button type="button" disabled=${doing !== ""} onClick=${all("deny", "Denying")}>Deny all</button>
      <button type="button" class="primary" disabled=${doing !== ""} onClick=${all("approve", "Approving")}>Approve all</button>`}
  </section>`;
}
