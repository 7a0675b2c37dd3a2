// A test call of a tool outside of any conversation: the verdict of the gate, and the result.

import { post, Problem } from "../../lib/api.js";
import { html, useRef, useState } from "../../lib/html.js";
import { length } from "../../lib/words.js";
import { failed } from "../../state/notices.js";
import { Result } from "../../chat/result.js";
import { Diff, isDiff } from "../../view/diff.js";
import { ArgumentsForm } from "./arguments.js";

/** Separates the reason from the preview in the server's `asks` error. */
const PREVIEW = "It would do this:\n";

/** @param {{tool: any, onClose: () => void}} props */
export function Trial({ tool, onClose }) {
  const [busy, setBusy] = useState(false);
  /** The result; the gate's request for approval; the error. */
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [asks, setAsks] = useState(/** @type {Problem | null} */ (null));
  const [wrong, setWrong] = useState("");
  const last = useRef(/** @type {object} */ ({}));
  /** @param {object} values @param {boolean} approve @param {string} [preview] the preview that the user has seen */
  const call = async (values, approve, preview) => {
    last.current = values;
    setBusy(true);
    setWrong("");
    setAsks(null);
    setAnswer(null);
    try {
      // Send no idempotency key, so that the request is never retried: the call may make changes.
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
  return html`<section class="trial" aria-label=${`Test call of ${tool.name}`}>
    <h3>Test call</h3>
    <p class="quiet">The call uses your uploaded files. The policy applies, and the call is recorded in the audit log.</p>
    <${ArgumentsForm} schema=${tool.input_schema} busy=${busy} action="Run tool" onSay=${(/** @type {object} */ values) => call(values, false)} onClose=${onClose} />
    ${busy && html`<p role="status"><span class="spinner"></span> Running…</p>`}
    ${wrong && html`<p class="note" data-tone="error" role="alert">${wrong}</p>`}
    ${asks && html`<div class="note" data-tone="warning" role="alert"><p>${why.trim()}</p>
      ${would && html`<h3>Preview</h3>${isDiff(would) ? html`<${Diff} text=${would} />` : html`<pre tabindex="0">${would}</pre>`}`}
      ${yours
        ? html`<button type="button" class="primary" disabled=${busy} onClick=${() => call(last.current, true, would)}>Approve and run</button>`
        : html`<p>${asks.hint}</p>`}</div>`}
    ${answer && html`<div role="status"><h3>${answer.error ? "Failed" : "Result"} <span class="quiet">after ${length(answer.duration_ms)}, allowed by ${answer.by}</span></h3></div>
      <${Answer} content=${answer.content} error=${answer.error} />`}
  </section>`;
}

/**
 * Splits an `asks` message into the reason and the optional preview.
 * @param {string} text @returns {[string, string | undefined]}
 */
function parted(text) {
  const at = text.indexOf(PREVIEW);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + PREVIEW.length)];
}

/** @param {{content: any[], error: boolean}} props */
const Answer = ({ content, error }) => html`${content.map((part, at) =>
  part.type === "image"
    ? html`<img key=${at} class="shown" src=${part.data} alt=${`Image returned by the tool (${part.title ?? ""})`} />`
    : html`<${Result} key=${at} blocks=${[{ kind: "text", text: part.data }]} error=${error} />`,
)}${content.length === 0 && html`<p class="quiet">The result is empty.</p>`}`;
