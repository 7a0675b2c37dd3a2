// Agents, and the models that they may ask.

import { html } from "../../lib/html.js";
import { count, money } from "../../lib/words.js";
import { useData, Wait } from "../../view/data.js";

/** The section. */
export function Page() {
  const { data: agents, loaded: first } = useData("/agents");
  const { data: models, loaded: second } = useData("/models");
  if (!agents || !models) return html`<${Wait} of=${[first, second]} />`;
  return html`${agents.data.map((/** @type {any} */ agent) => html`<details class="item" key=${agent.name} open><summary><strong>${agent.name}</strong><span class="fill"></span><span class="quiet">${agent.tools.length} tools</span></summary>
      <p>Models: ${agent.models.join(", then ")}</p><p class="quiet">Definition <code>${agent.digest.slice(0, 12)}</code>: a run keeps the one that it was started with.</p>
      <h3>Limits and settings</h3><pre tabindex="0">${JSON.stringify({ limits: agent.limits, settings: agent.settings }, null, 2)}</pre></details>`)}
    <h2>Models</h2>
    <div class="table" tabindex="0"><table class="list"><thead><tr><th>Model</th><th>Can be called</th><th class="number">Context</th><th>Tools</th><th>Reasons</th><th class="number">$ per million, in / out</th></tr></thead>
      <tbody>${models.data.map((/** @type {any} */ model) => html`<tr key=${model.name}><td>${model.name}</td><td>${model.available ? "yes" : "no"}</td><td class="number">${count(model.context_tokens)}</td><td>${word(model.tool_calls)}</td><td>${word(model.reasoning)}</td><td class="number">${model.price ? `${money(model.price.input)} / ${money(model.price.output)}` : "unknown"}</td></tr>`)}</tbody></table></div>`;
}

/** @param {boolean | null | undefined} known */
const word = (known) => (known == null ? "unknown" : known ? "yes" : "no");
