// A call of a tool to try, outside of any conversation: what the gate says of it, and what it answers.

import { post, Problem } from "../../lib/api.js";
import { html, useRef, useState } from "../../lib/html.js";
import { length } from "../../lib/words.js";
import { failed } from "../../state/notices.js";
import { Result } from "../../chat/result.js";
import { Diff, isDiff } from "../../view/diff.js";
import { ArgumentsForm } from "./arguments.js";

/** What stands in a question of the gate before what the call would do. */
const PREVIEW = "It would do this:\n";

/** @param {{tool: any, onClose: () => void}} props */
export function Trial({ tool, onClose }) {
  const [busy, setBusy] = useState(false);
  /** What it answered; a question of the gate; what was wrong. */
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [asks, setAsks] = useState(/** @type {Problem | null} */ (null));
  const [wrong, setWrong] = useState("");
  const last = useRef(/** @type {object} */ ({}));
  /** @param {object} values @param {boolean} approve @param {string} [preview] what was shown of it, where anything was */
  const call = async (values, approve, preview) => {
    last.current = values;
    setBusy(true);
    setWrong("");
    setAsks(null);
    setAnswer(null);
    try {
      // Not repeated by itself: it may change something.
      setAnswer(await post(`/tools/${encodeURIComponent(tool.name)}/call`, { arguments: values, approve, preview }, { once: false }));
    } catch (error) {
      if (!(error instanceof Problem)) failed(error);
      else if (error.code === "asks") setAsks(error);
      else setWrong([error.message, error.hint].filter(Boolean).join(". "));
    } finally {
      setBusy(false);
    }
  };
  const yours = asks?.hint.includes("approve");
  const [why, would] = parted(asks?.message ?? "");
  return html`<section class="trial" aria-label=${`A call of ${tool.name}`}>
    <h3>A call to try</h3>
    <p class="quiet">It works on the files that you have uploaded, passes the policy like any other call, and stands in the audit log.</p>
    <${ArgumentsForm} schema=${tool.input_schema} busy=${busy} action="Call it" onSay=${(/** @type {object} */ values) => call(values, false)} onClose=${onClose} />
    ${busy && html`<p role="status"><span class="spinner"></span> called…</p>`}
    ${wrong && html`<p class="note" data-tone="error" role="alert">${wrong}</p>`}
    ${asks && html`<div class="note" data-tone="warning" role="alert"><p>${why.trim()}</p>
      ${would && html`<h3>It would do this</h3>${isDiff(would) ? html`<${Diff} text=${would} />` : html`<pre tabindex="0">${would}</pre>`}`}
      ${yours
        ? html`<button type="button" class="primary" disabled=${busy} onClick=${() => call(last.current, true, would)}>Approve, and call it</button>`
        : html`<p>${asks.hint}</p>`}</div>`}
    ${answer && html`<div role="status"><h3>${answer.error ? "It failed" : "It answered"} <span class="quiet">after ${length(answer.duration_ms)}, let through by ${answer.by}</span></h3></div>
      <${Answer} content=${answer.content} error=${answer.error} />`}
  </section>`;
}

/** A question of the gate, and what the call would do, where it is told. @param {string} text @returns {[string, string | undefined]} */
function parted(text) {
  const at = text.indexOf(PREVIEW);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + PREVIEW.length)];
}

/** @param {{content: any[], error: boolean}} props */
const Answer = ({ content, error }) => html`${content.map((part, at) =>
  part.type === "image"
    ? html`<img key=${at} class="shown" src=${part.data} alt=${`A picture that the tool returned (${part.title ?? ""})`} />`
    : html`<${Result} key=${at} blocks=${[{ kind: "text", text: part.data }]} error=${error} />`,
)}${content.length === 0 && html`<p class="quiet">Nothing came with it.</p>`}`;
