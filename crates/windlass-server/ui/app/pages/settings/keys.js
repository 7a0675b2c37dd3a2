// The user's API keys: list, create, revoke.

import { post, remove } from "../../lib/api.js";
import { html, useState } from "../../lib/html.js";
import { full } from "../../lib/words.js";
import { attempt, failed } from "../../state/notices.js";
import { isAdmin, me } from "../../state/session.js";
import { useData, Wait } from "../../view/data.js";
import { Dialog } from "../../view/dialog.js";
import { When } from "../../view/ticking.js";

export function Page() {
  const { data, load, loaded } = useData("/keys");
  const [made, setMade] = useState(/** @type {any} */ (null));
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  /** @param {any} event */
  const make = (event) => {
    event.preventDefault();
    const form = event.target;
    const scopes = [...form.querySelectorAll("[name=scope]:checked")].map((/** @type {any} */ box) => box.value);
    attempt(async () => {
      setMade(await post("/keys", { name: form.elements.name.value, scopes, password: form.elements.password?.value }, { once: false }));
      form.reset();
      load();
    });
  };
  return html`${data.data.length === 0 && html`<p class="empty">No API keys yet. Programs use a key to call the API as you.</p>`}
    ${data.data.map((/** @type {any} */ key) => html`<div class="item row wrap" key=${key.id}><strong>${key.name}</strong><code>${key.begins}…</code><span class="fill quiet">${key.scopes.length > 0 ? key.scopes.join(", ") : "all your permissions"}; created <${When} at=${key.created_at} />${key.expires_at ? `, expires ${full(key.expires_at)}` : ""}</span><button type="button" class="danger" onClick=${() => attempt(() => remove(`/keys/${key.id}`).then(load))}>Revoke</button></div>`)}
    <h2>Create a key</h2><form class="stack" onSubmit=${make}><label>Name <input name="name" required maxlength="100" placeholder="nightly script" /></label>
      <div class="row wrap" role="group" aria-label="Permissions">${["read", "run", "approve", ...(isAdmin.value ? ["admin"] : [])].map((scope) => html`<label class="check"><input type="checkbox" name="scope" value=${scope} /> ${scope}</label>`)}<span class="quiet">none selected: all your permissions</span></div>
      ${me.value?.has_password && html`<label>Your password <input name="password" type="password" autocomplete="current-password" required /></label>`}
      <div class="row"><button type="submit" class="primary">Create key</button></div></form>
    ${made && html`<${Dialog} title="Your new API key" onClose=${() => setMade(null)}><p>Copy the key now. It cannot be shown again.</p><pre tabindex="0">${made.secret}</pre>
      <div class="row end"><button type="button" class="primary" autofocus onClick=${() => navigator.clipboard.writeText(made.secret).then(() => setMade(null), failed)}>Copy and close</button></div></${Dialog}>`}`;
}
