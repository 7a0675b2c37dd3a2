// The policy: the active rules, a check of a policy text, and a test call against the policy.

import { get, post } from "../../lib/api.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { plural } from "../../lib/words.js";
import { attempt } from "../../state/notices.js";
import { isOperator, mayRun } from "../../state/session.js";
import { Missing, useLoaded } from "../../view/loaded.js";
import { Ask } from "./policy_ask.js";
import { Rule } from "./rule.js";

/** The initial text if there is no policy yet. */
const EXAMPLE = `[[rule]]
name = "notes are free"
tools = ["Write", "Edit"]
verdict = "allow"
when = [{ argument = "/file_path", under = "notes" }]

[[rule]]
name = "no secrets"
tools = ["Read"]
verdict = "deny"
when = [{ argument = "/file_path", matches = "[.]env$" }]
`;

export function Page() {
  const read = useLoaded((stop) => (isOperator.value ? get("/policy", { stop }) : Promise.resolve({ files: [] })));
  const [text, setText] = useState(/** @type {string | null} */ (null));
  if (!read.value) return html`<${Missing} of=${read} />`;
  const { files } = read.value;
  return html`
    <p class="quiet">Rules decide which calls run, need approval, or are denied. If several rules match a call, the strictest wins. If none matches, read-only calls run and other calls need approval, unless auto-run, an allow list or a grant allows them.</p>
    ${isOperator.value && html`<${Files} files=${files} onEdit=${setText} />`}
    ${mayRun.value
      ? html`<${Check} text=${text ?? files[0]?.text ?? EXAMPLE} onText=${setText} />
          <h2>Test a call against the policy</h2>
          <p class="quiet">The tool does not run. Your auto-run setting for all conversations, your allow list and your grants apply.</p>
          <${Ask} text=${text} />`
      : html`<div class="empty"><h2>Policy not available</h2><p>Your role cannot start runs, so you cannot test the policy. The card of each call shows which rule applied.</p></div>`}`;
}

/** @param {{files: any[], onEdit: (text: string) => void}} props */
function Files({ files, onEdit }) {
  if (files.length === 0) {
    return html`<div class="empty"><h2>No rules</h2><p>Without rules, each call that makes changes needs approval. Write rules to <code>windlass.policy.toml</code> in the server's folder, or to <code>policy.toml</code> in your user settings, and restart the server. The text below is an example.</p></div>`;
  }
  return files.map(
    (file) => html`<section key=${file.path} aria-label=${file.path}><h2>${file.path}</h2>
      ${!file.whole && html`<p class="note" data-tone="warning">This folder's file is not trusted: only its rules that deny or ask apply. Run <code>windlass trust</code> on the server to apply all rules.</p>`}
      ${file.rules.length === 0 && html`<p class="empty">None of its rules applies.</p>`}
      ${file.rules.map((/** @type {any} */ rule, /** @type {number} */ at) => html`<${Rule} key=${at} rule=${rule} />`)}
      <p><button type="button" onClick=${() => onEdit(file.text)}>Edit and check below</button></p></section>`,
  );
}

/** @param {{text: string, onText: (text: string) => void}} props */
function Check({ text, onText }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  useEffect(() => setFound(null), [text]);
  const check = async () => {
    setBusy(true);
    await attempt(async () => setFound(await post("/policy/check", { text }, { once: false })));
    setBusy(false);
  };
  return html`<h2>Check a policy</h2>
    <p class="quiet">The text is checked, but not saved. Rules are changed in the policy file on the server.</p>
    <form onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      check();
    }}>
      <textarea class="code" name="policy" aria-label="Policy text" spellcheck="false" rows=${Math.min(24, Math.max(8, text.split("\n").length + 1))} value=${text} onInput=${(/** @type {any} */ event) => onText(event.target.value)}></textarea>
      <div class="row"><button type="submit" class="primary" disabled=${busy}>Check</button></div>
    </form>
    <div role="status">${found && html`<${Findings} found=${found} />`}</div>`;
}

/** @param {{found: any}} props */
function Findings({ found }) {
  const rules = plural(found.rules, "rule");
  if (found.problems.length === 0) return html`<p class="note" data-tone="good">${rules}, no problems found.</p>`;
  return html`<p class="note" data-tone=${found.usable ? "warning" : "error"}>${found.usable ? `${rules}, with warnings.` : "The policy has errors and cannot be used."}</p>
    <ul class="findings">${found.problems.map((/** @type {any} */ one, /** @type {number} */ at) => html`<li key=${at}><strong>Line ${one.line}</strong>, ${one.severity}: ${one.message}
      ${one.text.trim() && html`<pre tabindex="0">${one.text}</pre>`}${one.hint && html`<p class="quiet">${one.hint}</p>`}</li>`)}</ul>`;
}
