// Grants: permissions for calls to run without approval, until the grant expires, is used up or is revoked.

import { remove } from "../../lib/api.js";
import { html, useState } from "../../lib/html.js";
import { full } from "../../lib/words.js";
import { attempt } from "../../state/notices.js";
import { isAdmin, mayRun } from "../../state/session.js";
import { useAll, Wait } from "../../view/data.js";

export function Page() {
  const [all, setAll] = useState(false);
  const { data, load, loaded } = useAll(`/grants${all ? "?all=true" : ""}`);
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  return html`${isAdmin.value && html`<label class="check"><input type="checkbox" checked=${all} onChange=${(/** @type {any} */ event) => setAll(event.target.checked)} /> Grants of all users in the workspace</label>`}
    ${data.data.length === 0
      ? html`<div class="empty"><h2>No grants</h2><p>“Always allow” on a call creates a grant: matching calls run without approval until it expires or is used up.</p></div>`
      : html`<div class="table" tabindex="0"><table class="list"><thead><tr><th>Tool</th><th>Arguments</th><th class="number">Calls left</th><th>Expires</th>${all && html`<th>User</th>`}<th>Granted by</th><th><span class="hidden">Actions</span></th></tr></thead>
          <tbody>${data.data.map((/** @type {any} */ grant) => html`<tr key=${grant.id}><td><strong>${grant.tool}</strong>${grant.server && html`<br /><span class="quiet">server ${grant.server}</span>`}</td><td>${conditions(grant.arguments)}</td><td class="number">${grant.remaining ?? "no limit"}</td><td>${grant.expires_at ? full(grant.expires_at) : "never"}</td>${all && html`<td>${grant.user}</td>`}<td>${grant.by}</td>
            <td>${mayRun.value && html`<button type="button" aria-label=${`Revoke the grant for ${grant.tool}`} onClick=${() => attempt(() => remove(`/grants/${grant.id}`).then(load))}>Revoke</button>`}</td></tr>`)}</tbody></table></div>`}`;
}

/** @param {any[]} all */
const conditions = (all) =>
  all.length === 0 ? "any" : all.map(({ argument, is }) => html`<div key=${argument}><code>${argument.slice(1) || "all"}</code> ${typeof is === "string" ? is : Object.entries(is).map(([kind, value]) => html`${kind.replaceAll("_", " ")} <code class="long">${shown(value)}</code>`)}</div>`);

/** @param {any} value */
function shown(value) {
  const text = JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
