// The policy: the rules that count, a text of rules to check, and what the gate would say to a call.

import { get, post } from "../../lib/api.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { plural } from "../../lib/words.js";
import { attempt } from "../../state/notices.js";
import { isOperator, mayRun } from "../../state/session.js";
import { Missing, useLoaded } from "../../view/loaded.js";
import { Ask } from "./policy_ask.js";
import { Rule } from "./rule.js";

/** A text to begin with, where there is no policy yet. */
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

/** The section. */
export function Page() {
  const read = useLoaded((stop) => (isOperator.value ? get("/policy", { stop }) : Promise.resolve({ files: [] })));
  const [text, setText] = useState(/** @type {string | null} */ (null));
  if (!read.value) return html`<${Missing} of=${read} />`;
  const { files } = read.value;
  return html`
    <p class="quiet">Rules say which calls run, which are asked about and which are denied. Of several that fit a call the strictest counts; where none fits, calls that only read run, and the others ask, as far as nobody has chosen otherwise.</p>
    ${isOperator.value && html`<${Files} files=${files} onEdit=${setText} />`}
    ${mayRun.value
      ? html`<${Check} text=${text ?? files[0]?.text ?? EXAMPLE} onText=${setText} />
          <h2>What would the gate say?</h2>
          <p class="quiet">Nothing is called. What you have chosen for all your conversations counts, your allow list and your grants too.</p>
          <${Ask} text=${text} />`
      : html`<div class="empty"><h2>Rules are for those who run things</h2><p>You look at what others do. Which rule let a call run stands in the call itself.</p></div>`}`;
}

/** @param {{files: any[], onEdit: (text: string) => void}} props */
function Files({ files, onEdit }) {
  if (files.length === 0) {
    return html`<div class="empty"><h2>No rules</h2><p>Without rules, each call that changes something asks a person. Rules stand in <code>windlass.policy.toml</code> in the folder that is served, or in <code>policy.toml</code> among your own settings, and count from the server's next start. Below is a text to begin with.</p></div>`;
  }
  return files.map(
    (file) => html`<section key=${file.path} aria-label=${file.path}><h2>${file.path}</h2>
      ${!file.whole && html`<p class="note" data-tone="warning">Nobody has trusted this folder's file: only its rules that deny or ask count. <code>windlass trust</code> on the server's terminal lets all of it count.</p>`}
      ${file.rules.length === 0 && html`<p class="empty">None of its rules counts.</p>`}
      ${file.rules.map((/** @type {any} */ rule, /** @type {number} */ at) => html`<${Rule} key=${at} rule=${rule} />`)}
      <p><button type="button" onClick=${() => onEdit(file.text)}>Check a change of it below</button></p></section>`,
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
  return html`<h2>Check a text of rules</h2>
    <p class="quiet">It is only looked at: rules change where they stand, in a file on the server's machine.</p>
    <form onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      check();
    }}>
      <textarea class="code" name="policy" aria-label="A text of rules" spellcheck="false" rows=${Math.min(24, Math.max(8, text.split("\n").length + 1))} value=${text} onInput=${(/** @type {any} */ event) => onText(event.target.value)}></textarea>
      <div class="row"><button type="submit" class="primary" disabled=${busy}>Check it</button></div>
    </form>
    <div role="status">${found && html`<${Findings} found=${found} />`}</div>`;
}

/** @param {{found: any}} props */
function Findings({ found }) {
  const rules = plural(found.rules, "rule");
  if (found.problems.length === 0) return html`<p class="note" data-tone="good">${rules}, nothing wrong.</p>`;
  return html`<p class="note" data-tone=${found.usable ? "warning" : "error"}>${found.usable ? `${rules}; it may not say what was meant.` : "It cannot be used as it is."}</p>
    <ul class="findings">${found.problems.map((/** @type {any} */ one, /** @type {number} */ at) => html`<li key=${at}><strong>Line ${one.line}</strong>, ${one.severity}: ${one.message}
      ${one.text.trim() && html`<pre tabindex="0">${one.text}</pre>`}${one.hint && html`<p class="quiet">${one.hint}</p>`}</li>`)}</ul>`;
}
