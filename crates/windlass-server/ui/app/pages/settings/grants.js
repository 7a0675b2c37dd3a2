// Grants: calls that run without asking because somebody has said so, until that is taken back.

import { remove } from "../../lib/api.js";
import { html, useState } from "../../lib/html.js";
import { full } from "../../lib/words.js";
import { attempt } from "../../state/notices.js";
import { isAdmin, mayRun } from "../../state/session.js";
import { useAll, Wait } from "../../view/data.js";

/** The section. */
export function Page() {
  const [all, setAll] = useState(false);
  const { data, load, loaded } = useAll(`/grants${all ? "?all=true" : ""}`);
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  return html`${isAdmin.value && html`<label class="check"><input type="checkbox" checked=${all} onChange=${(/** @type {any} */ event) => setAll(event.target.checked)} /> Those of everybody in the workspace</label>`}
    ${data.data.length === 0
      ? html`<div class="empty"><h2>No grants</h2><p>“Approve and do not ask again” on a call makes one. It lets calls like it run without asking, as often and as long as you said, and stands here until then.</p></div>`
      : html`<div class="table" tabindex="0"><table class="list"><thead><tr><th>Tool</th><th>Where the arguments are</th><th class="number">Left</th><th>Until</th>${all && html`<th>For</th>`}<th>By</th><th><span class="hidden">What can be done</span></th></tr></thead>
          <tbody>${data.data.map((/** @type {any} */ grant) => html`<tr key=${grant.id}><td><strong>${grant.tool}</strong>${grant.server && html`<br /><span class="quiet">of ${grant.server}</span>`}</td><td>${conditions(grant.arguments)}</td><td class="number">${grant.remaining ?? "any number"}</td><td>${grant.expires_at ? full(grant.expires_at) : "taken back"}</td>${all && html`<td>${grant.user}</td>`}<td>${grant.by}</td>
            <td>${mayRun.value && html`<button type="button" aria-label=${`Take back the grant for ${grant.tool}`} onClick=${() => attempt(() => remove(`/grants/${grant.id}`).then(load))}>Take back</button>`}</td></tr>`)}</tbody></table></div>`}`;
}

/** @param {any[]} all */
const conditions = (all) =>
  all.length === 0 ? "any" : all.map(({ argument, is }) => html`<div key=${argument}><code>${argument.slice(1) || "all"}</code> ${typeof is === "string" ? is : Object.entries(is).map(([kind, value]) => html`${kind.replaceAll("_", " ")} <code class="long">${shown(value)}</code>`)}</div>`);

/** @param {any} value */
function shown(value) {
  const text = JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
