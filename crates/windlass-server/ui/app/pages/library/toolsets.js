// Toolsets with their tools. The list shows which tools every request contains, and which tools make changes.

import { html } from "../../lib/html.js";
import { plural } from "../../lib/words.js";
import { useAll, useData, Wait } from "../../view/data.js";
import { changes, Kind } from "./tools.js";

export function Page() {
  const { data: sets, loaded: first } = useData("/toolsets");
  const { data: tools, loaded: second } = useAll("/tools");
  if (!sets || !tools) return html`<${Wait} of=${[first, second]} />`;
  const known = new Map(tools.data.map((/** @type {any} */ tool) => [tool.name, tool]));
  const grouped = new Set(sets.data.flatMap((/** @type {any} */ set) => set.tools));
  const single = tools.data.filter((/** @type {any} */ tool) => !grouped.has(tool.name)).map((/** @type {any} */ tool) => tool.name);
  return html`<p class="quiet">Some tools are included in every request. The model loads the others by toolset when it needs them, which saves tokens.</p>
    ${sets.data.map((/** @type {any} */ set) => html`<${Toolset} key=${set.name} name=${set.name} description=${set.description} tools=${set.tools} loadable=${set.loadable} known=${known} />`)}
    ${single.length > 0 && html`<${Toolset} name="No toolset" description="Tools that belong to no toolset." tools=${single} loadable=${[]} known=${known} />`}
    ${sets.data.length === 0 && single.length === 0 && html`<div class="empty"><h2>No tools</h2><p>Add <a href="/library/servers">tool servers</a> under <code>[mcp.NAME]</code> in <code>windlass.toml</code>, or HTTP APIs under <code>[api.NAME]</code>.</p></div>`}`;
}

/** @param {{name: string, description: string, tools: string[], loadable: string[], known: Map<string, any>}} props */
function Toolset({ name, description, tools, loadable, known }) {
  const writers = tools.filter((tool) => known.has(tool) && changes(known.get(tool)));
  return html`<details class="item"><summary><strong>${name}</strong><span class="fill clip">${description}</span>
      <span class="quiet">${plural(tools.length, "tool")}</span>
      ${loadable.length < tools.length && html`<span class="tag" data-tone="good">${loadable.length === 0 ? "always included" : `${tools.length - loadable.length} always included`}</span>`}
      ${writers.length > 0 && html`<span class="tag" data-tone="warn">${writers.length} make${writers.length === 1 ? "s" : ""} changes</span>`}</summary>
    <div class="table" tabindex="0"><table class="list"><thead><tr><th>Tool</th><th>Included in requests</th><th>Effect</th></tr></thead>
      <tbody>${tools.map((tool) => html`<tr key=${tool}><td><a href=${`/library/tools?tool=${encodeURIComponent(tool)}`}>${tool}</a></td>
        <td>${loadable.includes(tool) ? "after the model loads the toolset" : "always"}</td><td>${known.has(tool) ? html`<${Kind} tool=${known.get(tool)} />` : "unavailable"}</td></tr>`)}</tbody></table></div>
  </details>`;
}
