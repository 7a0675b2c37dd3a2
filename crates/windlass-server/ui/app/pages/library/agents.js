// Agents and models.

import { html } from "../../lib/html.js";
import { MODES } from "../../lib/modes.js";
import { count, money, plural } from "../../lib/words.js";
import { useData, Wait } from "../../view/data.js";

export function Page() {
  const { data: agents, loaded: first } = useData("/agents");
  const { data: models, loaded: second } = useData("/models");
  if (!agents || !models) return html`<${Wait} of=${[first, second]} />`;
  return html`<h2>Agents</h2>
    ${agents.data.map((/** @type {any} */ agent) => html`<${Agent} key=${agent.name} agent=${agent} />`)}
    <h2>Models</h2>
    <div class="table" tabindex="0"><table class="list"><thead><tr><th>Model</th><th>Available</th><th class="number">Context</th><th>Tools</th><th>Reasoning</th><th class="number">$ per million, in / out</th></tr></thead>
      <tbody>${models.data.map((/** @type {any} */ model) => html`<tr key=${model.name}><td>${model.name}</td><td>${model.available ? "yes" : html`no${model.reason && html`<br /><span class="quiet prewrap">${model.reason}</span>`}`}</td><td class="number">${count(model.context_tokens)}</td><td>${word(model.tool_calls)}</td><td>${word(model.reasoning)}</td><td class="number">${model.price ? `${money(model.price.input)} / ${money(model.price.output)}` : "unknown"}</td></tr>`)}</tbody></table></div>`;
}

/** @param {{agent: any}} props */
const Agent = ({ agent }) => html`<details class="item agent" open><summary><strong>${agent.name}</strong><span class="fill"></span><span class="quiet">${plural(agent.tools.length, "tool")}</span></summary>
  <p>Models: ${agent.models.join(", then ")}</p>
  ${agent.mode && html`<p>Default mode: <strong>${agent.mode}</strong> (${MODES[agent.mode]})</p>`}
  <p class="quiet">Definition <code>${agent.digest.slice(0, 12)}</code>: a run keeps the definition with which it started.</p>
  ${agent.instructions && html`<h3>Instructions</h3>${agent.instructions.length === 0 ? html`<p class="quiet">No instructions.</p>` : agent.instructions.map((/** @type {string} */ text, /** @type {number} */ at) => html`<pre key=${at} tabindex="0" aria-label="Instructions">${text}</pre>`)}`}
  <h3>Tools</h3>
  ${agent.tools.length === 0 ? html`<p class="quiet">No tools.</p>` : html`<ul class="chips" aria-label="Tools">${agent.tools.map((/** @type {string} */ tool) => html`<li key=${tool}><a href=${`/library/tools?tool=${encodeURIComponent(tool)}`}>${tool}</a></li>`)}</ul>`}
  <h3>Limits and settings</h3><pre tabindex="0">${JSON.stringify({ limits: agent.limits, settings: agent.settings }, null, 2)}</pre></details>`;

/** @param {boolean | null | undefined} known */
const word = (known) => (known == null ? "unknown" : known ? "yes" : "no");
