// The user's auto-run setting and allow list.

import { all, put, remove } from "../../lib/api.js";
import { AUTO_RUN } from "../../chat/auto_run.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { attempt } from "../../state/notices.js";
import { useData, Wait } from "../../view/data.js";

export function Page() {
  const first = useData("/auto-run");
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const mode = chosen ?? first.data;
  const { data, load, loaded } = useData("/allowlist");
  const [tools, setTools] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    all("/tools").then((page) => setTools(page.data), () => {});
  }, []);
  /** @param {string} name */
  const choose = async (name) => {
    const now = await attempt(() => put("/auto-run", { auto_run: name }));
    // A rejected change must also render, to show the setting that is in effect.
    setChosen(now ?? { ...mode });
  };
  if (!mode || !data) return html`<${Wait} of=${[first.loaded, loaded]} />`;
  /** @type {string[]} */
  const names = data.data;
  return html`<fieldset class="choices"><legend>Approvals in all your conversations</legend>
      ${Object.entries(AUTO_RUN).map(([name, words]) => html`<label class="check"><input type="radio" name="mode" checked=${mode.effective === name} onChange=${() => choose(name)} /> <strong>${name}</strong> ${words}</label>`)}</fieldset>
    <p class="quiet">Policy rules always apply. A conversation can override this setting.</p>
    <h2>Allow list</h2><p class="quiet">Applies only to the setting “allowlist”.</p>
    ${names.length === 0 && html`<p class="empty">No tools on the allow list.</p>`}<ul class="chips">${names.map((name) => html`<li key=${name}>${name} <button type="button" class="plain" aria-label=${`Remove ${name}`} onClick=${() => attempt(() => remove(`/allowlist/${encodeURIComponent(name)}`).then(load))}>×</button></li>`)}</ul>
    <form class="row" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      const field = event.target.elements.tool;
      attempt(() => put(`/allowlist/${encodeURIComponent(field.value)}`).then(load)).then(() => (field.value = ""));
    }}><input name="tool" list="tools" required aria-label="Tool" placeholder="Tool name" /><datalist id="tools">${tools.map((tool) => html`<option value=${tool.name} />`)}</datalist><button type="submit">Add</button></form>`;
}
