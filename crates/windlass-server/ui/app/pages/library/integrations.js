// Integrations: systems that the workspace is connected to, and a check of their credentials.

import { patch, post, remove, told } from "../../lib/api.js";
import { parse } from "../../lib/exact.js";
import { html, useState } from "../../lib/html.js";
import { full } from "../../lib/words.js";
import { attempt, done, warn } from "../../state/notices.js";
import { isAdmin } from "../../state/session.js";
import { useData, Wait } from "../../view/data.js";
import { Confirm, Dialog } from "../../view/dialog.js";

export function Page() {
  const { data, load, loaded } = useData("/integrations");
  const [adding, setAdding] = useState(false);
  const [wrong, setWrong] = useState(/** @type {{title: string, hint: string} | null} */ (null));
  const [forgetting, setForgetting] = useState(/** @type {any} */ (null));
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  /** @param {any} event */
  const add = async (event) => {
    event.preventDefault();
    const { provider, name, metadata, credentials } = event.target.elements;
    setWrong(null);
    try {
      await post("/integrations", { provider: provider.value, name: name.value, metadata: read(metadata, "Metadata"), credentials: read(credentials, "Credentials") });
      end();
      load();
    } catch (error) {
      setWrong(told(error));
    }
  };
  const end = () => {
    setAdding(false);
    setWrong(null);
  };
  /** @param {any} one */
  const check = (one) =>
    attempt(async () => {
      const { ok, detail } = await post(`/integrations/${one.id}/check`, {}, { once: false });
      (ok ? done : warn)(`${one.name}: ${detail}`);
    });
  return html`
    ${data.data.length === 0 && html`<div class="empty"><h2>No integrations</h2><p>An integration stores the address and the encrypted credentials of a system that tools use. The model never sees them.</p></div>`}
    ${data.data.map((/** @type {any} */ one) => html`<div class="item row wrap" key=${one.id}><strong>${one.name}</strong><span class="tag">${one.provider}</span><span class="state" data-state=${one.status}>${one.status}</span><span class="fill quiet">${one.credentials_ref ? "credentials stored" : "no credentials"}, updated ${full(one.updated_at)}</span>
      ${isAdmin.value && html`<button type="button" onClick=${() => check(one)}>Check</button>
        <button type="button" onClick=${() => attempt(() => patch(`/integrations/${one.id}`, { status: one.status === "active" ? "disabled" : "active" }).then(load))}>${one.status === "active" ? "Disable" : "Enable"}</button>
        <button type="button" class="danger" onClick=${() => setForgetting(one)}>Delete</button>`}</div>`)}
    ${isAdmin.value && html`<p><button type="button" class="primary" onClick=${() => setAdding(true)}>Add integration</button></p>`}
    ${adding && html`<${Dialog} title="Add integration" onClose=${end}><form class="stack" onSubmit=${add}>
      <label>System <input name="provider" required placeholder="jenkins" /></label><label>Name <input name="name" required placeholder="Build server" /></label>
      <label>Metadata (JSON) <textarea class="code" name="metadata" rows="3" placeholder='{"api_url": "https://…"}'></textarea></label>
      <label>Credentials (JSON) <textarea class="code" name="credentials" rows="3" autocomplete="off" placeholder='{"username": "…", "token": "…"}'></textarea></label>
      ${wrong && html`<p class="wrong" role="alert">${wrong.title}${wrong.hint && html` <small>${wrong.hint}</small>`}</p>`}
      <div class="row end"><button type="button" onClick=${end}>Cancel</button><button type="submit" class="primary">Add</button></div></form></${Dialog}>`}
    ${forgetting && html`<${Confirm} title=${`Delete ${forgetting.name}?`} text="This deletes its credentials. Tools that need it stop working." action="Delete" onClose=${() => setForgetting(null)} onDo=${() => attempt(() => remove(`/integrations/${forgetting.id}`).then(load))} />`}`;
}

/** Parses a JSON field; undefined if it is empty. @param {any} field @param {string} label */
function read(field, label) {
  if (!field.value.trim()) return undefined;
  try {
    return parse(field.value);
  } catch (error) {
    throw new Error(`“${label}” is not valid JSON: ${error instanceof Error ? error.message : error}`);
  }
}
