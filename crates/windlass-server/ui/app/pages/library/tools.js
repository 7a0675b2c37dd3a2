// The tools: description, arguments and a test call.

import { html, useState } from "../../lib/html.js";
import { place } from "../../lib/route.js";
import { count, plural } from "../../lib/words.js";
import { mayRun } from "../../state/session.js";
import { useAll, Wait } from "../../view/data.js";
import { Trial } from "./trial.js";

/** Descriptions of how a call with a lost outcome is treated, by effect class. @type {Record<string, string>} */
const CLASSES = {
  pure: "retried (read-only)",
  idempotent: "retried (idempotent)",
  keyed: "retried with an idempotency key",
  reconcile: "checked first, then retried",
  once: "never retried automatically",
};

export function Page() {
  const { data, loaded } = useAll("/tools");
  const [text, setText] = useState("");
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  const named = place.value.query.get("tool");
  const wanted = text.toLowerCase();
  const found = data.data.filter((/** @type {any} */ tool) =>
    `${tool.name} ${tool.title} ${tool.description} ${tool.server ?? ""} ${tool.toolset ?? ""}`.toLowerCase().includes(wanted),
  );
  return html`<label class="search wide"><input type="search" placeholder=${`Search ${plural(data.data.length, "tool")}`} aria-label="Search tools"
      value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
    ${found.map((/** @type {any} */ tool) => html`<${Tool} key=${tool.name} tool=${tool} open=${tool.name === named} />`)}
    ${found.length === 0 && html`<p class="empty">No results for “${text}”.</p>`}`;
}

/** Returns whether a tool may make changes. @param {any} tool */
export const changes = (tool) => !tool.annotations?.readOnlyHint;

/** @param {{tool: any}} props */
export const Kind = ({ tool }) => html`<span class="tag" data-tone=${changes(tool) ? "warn" : "good"}>${changes(tool) ? "makes changes" : "read-only"}</span>`;

/** @param {{tool: any, open: boolean}} props */
function Tool({ tool, open }) {
  const [shown, setShown] = useState(open);
  const [trying, setTrying] = useState(false);
  const [first, ...rest] = tool.description.split("\n");
  return html`<details class="item" open=${shown} onToggle=${(/** @type {any} */ event) => setShown(event.target.open)}>
    <summary><strong>${tool.name}</strong><span class="fill clip">${first}</span>
      ${tool.server && html`<span class="tag">${tool.server}</span>`}<${Kind} tool=${tool} /></summary>
    ${shown && html`${rest.length > 0 && html`<p class="prewrap">${rest.join("\n").trim()}</p>`}
      <dl class="facts">
        <div><dt>Source</dt><dd>${tool.server ? html`<a href="/library/servers">${tool.server}</a>${tool.trusted ? "" : " (untrusted)"}` : "Built-in"}</dd></div>
        <div><dt>Included in requests</dt><dd>${tool.loadable ? `after the model loads “${tool.toolset}”` : "always"}</dd></div>
        <div><dt>If the outcome is lost</dt><dd>${CLASSES[tool.effect_class] ?? tool.effect_class}</dd></div>
        <div><dt>Modes</dt><dd>${tool.modes.join(", ")}</dd></div>
        <div><dt>Size in a request</dt><dd>about ${count(tool.tokens)} tokens</dd></div>
      </dl>
      <h3>Arguments</h3><${Arguments} schema=${tool.input_schema} />
      ${mayRun.value && (trying
        ? html`<${Trial} tool=${tool} onClose=${() => setTrying(false)} />`
        : html`<p><button type="button" onClick=${() => setTrying(true)}>Test call</button></p>`)}`}
  </details>`;
}

/** @param {{schema: any}} props */
function Arguments({ schema }) {
  const rows = Object.entries(schema?.properties ?? {});
  if (rows.length === 0) return html`<p class="quiet">No arguments.</p>`;
  return html`<div class="table" tabindex="0"><table class="list"><thead><tr><th>Name</th><th>Type</th><th>Description</th></tr></thead>
      <tbody>${rows.map(([name, own]) => html`<tr key=${name}><td><code>${name}</code></td>
        <td>${kindOf(own)}${schema.required?.includes(name) ? "" : html` <span class="quiet">optional</span>`}</td><td>${/** @type {any} */ (own)?.description ?? ""}</td></tr>`)}</tbody></table></div>
    <details><summary class="quiet">Schema</summary><pre tabindex="0">${JSON.stringify(schema, null, 2)}</pre></details>`;
}

/** @param {any} schema */
function kindOf(schema) {
  if (schema?.enum) return schema.enum.map((/** @type {any} */ one) => JSON.stringify(one)).join(" or ");
  const type = schema?.type ?? "any";
  const name = Array.isArray(type) ? type.filter((one) => one !== "null").join(" or ") : type;
  return name === "array" ? `list of ${schema.items?.type ?? "any"}` : name;
}
