// What agents have: tools, agents and models, connected systems, the policy's grants.

import { get, patch, post, remove } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { place } from "../lib/route.js";
import { count, full, money } from "../lib/words.js";
import { attempt, done, failed } from "../state/notices.js";
import { isAdmin } from "../state/session.js";
import { Confirm, Dialog } from "../view/dialog.js";

const SECTIONS = [
  ["tools", "Tools"],
  ["agents", "Agents and models"],
  ["integrations", "Integrations"],
  ["grants", "Grants"],
];

/** The page. */
export function Page() {
  const section = place.value.parts[1] ?? "tools";
  const View = { tools: Tools, agents: Agents, integrations: Integrations, grants: Grants }[section] ?? Tools;
  return html`<div class="page wide"><h1>Library</h1>
    <nav class="tabs" aria-label="Parts of the library">${SECTIONS.map(([path, name]) => html`<a href=${`/library/${path}`} aria-current=${path === section ? "page" : undefined}>${name}</a>`)}</nav>
    <${View} key=${section} /></div>`;
}

/** @param {string} path */
function usePage(path) {
  const [page, setPage] = useState(/** @type {any} */ (null));
  const load = () => get(path).then(setPage, failed);
  useEffect(() => {
    load();
  }, []);
  return { page, load };
}

const Wait = () => html`<div aria-busy="true"><span class="spinner"></span></div>`;

/** @type {Record<string, string>} */
const CLASSES = {
  pure: "reads only",
  idempotent: "may be repeated",
  keyed: "repeated under its key",
  once: "never repeated by itself",
};

function Tools() {
  const { page } = usePage("/tools?limit=200");
  const [text, setText] = useState("");
  if (!page) return html`<${Wait} />`;
  const found = page.data.filter((/** @type {any} */ tool) => `${tool.name} ${tool.description} ${tool.server ?? ""}`.toLowerCase().includes(text.toLowerCase()));
  return html`<label class="search wide"><input type="search" placeholder=${`Search ${page.data.length} tools`} aria-label="Search tools" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
    ${found.map((/** @type {any} */ tool) => html`<details class="item" key=${tool.name}><summary><strong>${tool.name}</strong><span class="fill clip">${tool.description.split("\n")[0]}</span>
      ${tool.server && html`<span class="tag">${tool.server}</span>`}<span class="tag" data-tone=${tool.annotations?.readOnlyHint ? "good" : "warn"}>${CLASSES[tool.effect_class] ?? tool.effect_class}</span></summary>
      <p class="prewrap">${tool.description}</p><h3>Arguments</h3><pre tabindex="0">${JSON.stringify(tool.input_schema, null, 2)}</pre></details>`)}
    ${found.length === 0 && html`<p class="empty">No tool is like “${text}”.</p>`}`;
}

function Agents() {
  const agents = usePage("/agents").page;
  const models = usePage("/models").page;
  if (!agents || !models) return html`<${Wait} />`;
  return html`${agents.data.map((/** @type {any} */ agent) => html`<details class="item" key=${agent.name} open><summary><strong>${agent.name}</strong><span class="fill"></span><span class="quiet">${agent.tools.length} tools</span></summary>
      <p>Models: ${agent.models.join(", then ")}</p><p class="quiet">Definition <code>${agent.digest.slice(0, 12)}</code>: a run keeps the one that it was started with.</p>
      <h3>Limits and settings</h3><pre tabindex="0">${JSON.stringify({ limits: agent.limits, settings: agent.settings }, null, 2)}</pre></details>`)}
    <h2>Models</h2>
    <div class="table" tabindex="0"><table class="list"><thead><tr><th>Model</th><th>Can be called</th><th class="number">Context</th><th>Tools</th><th>Reasons</th><th class="number">$ per million, in / out</th></tr></thead>
      <tbody>${models.data.map((/** @type {any} */ model) => html`<tr><td>${model.name}</td><td>${model.available ? "yes" : "no"}</td><td class="number">${count(model.context_tokens)}</td><td>${word(model.tool_calls)}</td><td>${word(model.reasoning)}</td><td class="number">${model.price ? `${money(model.price.input)} / ${money(model.price.output)}` : "unknown"}</td></tr>`)}</tbody></table></div>`;
}

/** @param {boolean | null | undefined} known */
const word = (known) => (known == null ? "unknown" : known ? "yes" : "no");

function Integrations() {
  const { page, load } = usePage("/integrations");
  const [adding, setAdding] = useState(false);
  const [forgetting, setForgetting] = useState(/** @type {any} */ (null));
  if (!page) return html`<${Wait} />`;
  /** @param {any} event */
  const add = (event) => {
    event.preventDefault();
    const { provider, name, metadata, credentials } = event.target.elements;
    attempt(async () => {
      const read = (/** @type {any} */ field) => (field.value.trim() ? JSON.parse(field.value) : undefined);
      await post("/integrations", { provider: provider.value, name: name.value, metadata: read(metadata), credentials: read(credentials) });
      setAdding(false);
      load();
    });
  };
  /** @param {any} one */
  const check = (one) => attempt(async () => done((await post(`/integrations/${one.id}/check`, {}, { once: false })).detail ?? "It takes the credentials."));
  return html`
    ${page.data.length === 0 && html`<div class="empty"><h2>Nothing is connected</h2><p>An integration keeps the address and the sealed credentials of a system that tools work on. The model never sees them.</p></div>`}
    ${page.data.map((/** @type {any} */ one) => html`<div class="item row wrap" key=${one.id}><strong>${one.name}</strong><span class="tag">${one.provider}</span><span class="state" data-state=${one.status}>${one.status}</span><span class="fill quiet">${one.credentials_ref ? "credentials are sealed" : "no credentials"}, changed ${full(one.updated_at)}</span>
      ${isAdmin.value && html`<button type="button" onClick=${() => check(one)}>Check</button>
        <button type="button" onClick=${() => attempt(() => patch(`/integrations/${one.id}`, { status: one.status === "active" ? "disabled" : "active" }).then(load))}>${one.status === "active" ? "Switch off" : "Switch on"}</button>
        <button type="button" class="danger" onClick=${() => setForgetting(one)}>Forget</button>`}</div>`)}
    ${isAdmin.value && html`<p><button type="button" class="primary" onClick=${() => setAdding(true)}>Connect a system</button></p>`}
    ${adding && html`<${Dialog} title="Connect a system" onClose=${() => setAdding(false)}><form class="stack" onSubmit=${add}>
      <label>System <input name="provider" required placeholder="jenkins" /></label><label>Name <input name="name" required placeholder="The build server" /></label>
      <label>What is known of it, as JSON <textarea class="code" name="metadata" rows="3" placeholder='{"api_url": "https://…"}'></textarea></label>
      <label>Credentials, as JSON <textarea class="code" name="credentials" rows="3" autocomplete="off" placeholder='{"username": "…", "token": "…"}'></textarea></label>
      <div class="row end"><button type="button" onClick=${() => setAdding(false)}>Cancel</button><button type="submit" class="primary">Connect</button></div></form></${Dialog}>`}
    ${forgetting && html`<${Confirm} title=${`Forget ${forgetting.name}?`} text="Its credentials are deleted; tools that need it stop working." action="Forget" onClose=${() => setForgetting(null)} onDo=${() => attempt(() => remove(`/integrations/${forgetting.id}`).then(load))} />`}`;
}

function Grants() {
  const { page, load } = usePage("/grants?limit=200");
  if (!page) return html`<${Wait} />`;
  if (page.data.length === 0) return html`<div class="empty"><h2>No grants</h2><p>“Approve and do not ask again” on a call makes one. It lets calls like it run without asking, as often and as long as you said, and stands here until then.</p></div>`;
  return html`<div class="table" tabindex="0"><table class="list"><thead><tr><th>Tool</th><th>Where the arguments are</th><th class="number">Left</th><th>Until</th><th>By</th><th></th></tr></thead>
    <tbody>${page.data.map((/** @type {any} */ grant) => html`<tr key=${grant.id}><td><strong>${grant.tool}</strong></td><td><code class="clip">${grant.arguments.length > 0 ? JSON.stringify(grant.arguments) : "any"}</code></td><td class="number">${grant.remaining ?? "any number"}</td><td>${grant.expires_at ? full(grant.expires_at) : "taken back"}</td><td>${grant.by}</td>
      <td><button type="button" onClick=${() => attempt(() => remove(`/grants/${grant.id}`).then(load))}>Take back</button></td></tr>`)}</tbody></table></div>`;
}
