// Systems that the workspace is connected with: where they are, and whether they take the credentials.

import { patch, post, remove, told } from "../../lib/api.js";
import { parse } from "../../lib/exact.js";
import { html, useState } from "../../lib/html.js";
import { full } from "../../lib/words.js";
import { attempt, done, warn } from "../../state/notices.js";
import { isAdmin } from "../../state/session.js";
import { useData, Wait } from "../../view/data.js";
import { Confirm, Dialog } from "../../view/dialog.js";

/** The section. */
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
      await post("/integrations", { provider: provider.value, name: name.value, metadata: read(metadata, "What is known of it"), credentials: read(credentials, "Credentials") });
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
    ${data.data.length === 0 && html`<div class="empty"><h2>Nothing is connected</h2><p>An integration keeps the address and the sealed credentials of a system that tools work on. The model never sees them.</p></div>`}
    ${data.data.map((/** @type {any} */ one) => html`<div class="item row wrap" key=${one.id}><strong>${one.name}</strong><span class="tag">${one.provider}</span><span class="state" data-state=${one.status}>${one.status}</span><span class="fill quiet">${one.credentials_ref ? "credentials are sealed" : "no credentials"}, changed ${full(one.updated_at)}</span>
      ${isAdmin.value && html`<button type="button" onClick=${() => check(one)}>Check</button>
        <button type="button" onClick=${() => attempt(() => patch(`/integrations/${one.id}`, { status: one.status === "active" ? "disabled" : "active" }).then(load))}>${one.status === "active" ? "Switch off" : "Switch on"}</button>
        <button type="button" class="danger" onClick=${() => setForgetting(one)}>Forget</button>`}</div>`)}
    ${isAdmin.value && html`<p><button type="button" class="primary" onClick=${() => setAdding(true)}>Connect a system</button></p>`}
    ${adding && html`<${Dialog} title="Connect a system" onClose=${end}><form class="stack" onSubmit=${add}>
      <label>System <input name="provider" required placeholder="jenkins" /></label><label>Name <input name="name" required placeholder="The build server" /></label>
      <label>What is known of it, as JSON <textarea class="code" name="metadata" rows="3" placeholder='{"api_url": "https://…"}'></textarea></label>
      <label>Credentials, as JSON <textarea class="code" name="credentials" rows="3" autocomplete="off" placeholder='{"username": "…", "token": "…"}'></textarea></label>
      ${wrong && html`<p class="wrong" role="alert">${wrong.title}${wrong.hint && html` <small>${wrong.hint}</small>`}</p>`}
      <div class="row end"><button type="button" onClick=${end}>Cancel</button><button type="submit" class="primary">Connect</button></div></form></${Dialog}>`}
    ${forgetting && html`<${Confirm} title=${`Forget ${forgetting.name}?`} text="Its credentials are deleted; tools that need it stop working." action="Forget" onClose=${() => setForgetting(null)} onDo=${() => attempt(() => remove(`/integrations/${forgetting.id}`).then(load))} />`}`;
}

/** JSON that somebody typed; nothing, where they typed nothing. @param {any} field @param {string} label */
function read(field, label) {
  if (!field.value.trim()) return undefined;
  try {
    return parse(field.value);
  } catch (error) {
    throw new Error(`“${label}” is no JSON: ${error instanceof Error ? error.message : error}`);
  }
}
