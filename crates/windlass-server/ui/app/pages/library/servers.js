// Tool servers: status, tools, log, sign-in, and adding or removing them.

import { get, post, remove } from "../../lib/api.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { full, plural } from "../../lib/words.js";
import { attempt, done } from "../../state/notices.js";
import { isOperator } from "../../state/session.js";
import { useData, Wait } from "../../view/data.js";
import { Confirm, Dialog } from "../../view/dialog.js";
import { When } from "../../view/ticking.js";
import { Prompts } from "./prompts.js";
import { AddServer } from "./server_add.js";
import { SignIn } from "./sign_in.js";

/** Polling interval, in milliseconds: servers connect and disconnect at any time. */
const LOOK_AGAIN_MS = 3000;

/** Label and tone of each state. @type {Record<string, [string, string]>} */
const STATES = {
  starting: ["starting", "warn"],
  connected: ["connected", "good"],
  down: ["offline", "bad"],
  needs_sign_in: ["sign-in required", "warn"],
  disabled: ["disabled", "quiet"],
};

export function Page() {
  const { data, load, loaded } = useData("/mcp/servers");
  /** The open dialog and its server. */
  const [doing, setDoing] = useState(/** @type {{what: "" | "add" | "log" | "sign_in" | "sign_out" | "remove", name: string}} */ ({ what: "", name: "" }));
  const end = () => setDoing({ what: "", name: "" });
  useEffect(() => {
    const timer = setInterval(() => document.hidden || load(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  const place = `/mcp/servers/${encodeURIComponent(doing.name)}`;
  return html`
    ${data.data.length === 0 && html`<div class="empty"><h2>No tool servers</h2>
      <p>A tool server provides tools over MCP, for example for an issue tracker, a wiki or a database. The policy applies to their calls.</p>
      <p>${isOperator.value ? html`Add one here, or in <code>windlass.toml</code> under <code>[mcp.NAME]</code>.` : "An administrator of this server can add one."}</p></div>`}
    ${data.data.map((/** @type {any} */ server) => html`<${Server} key=${server.name} server=${server} onDo=${(/** @type {any} */ what) => setDoing({ what, name: server.name })} onChange=${load} />`)}
    ${isOperator.value && html`<p><button type="button" class="primary" onClick=${() => setDoing({ what: "add", name: "" })}>Add a tool server</button></p>`}
    ${doing.what === "add" && html`<${AddServer} onClose=${end} onAdded=${load} />`}
    ${doing.what === "log" && html`<${Log} name=${doing.name} onClose=${end} />`}
    ${doing.what === "sign_in" && html`<${SignIn} name=${doing.name} state=${data.data.find((/** @type {any} */ one) => one.name === doing.name)?.state} onLook=${load} onClose=${end} />`}
    ${doing.what === "sign_out" && html`<${Confirm} title=${`Sign out of ${doing.name}?`} text="This deletes its tokens for all users of this server. Calls to its tools then wait for a sign-in." action="Sign out" keep="Stay signed in" onClose=${end}
      onDo=${() => attempt(() => remove(`${place}/sign-in`).then(load))} />`}
    ${doing.what === "remove" && html`<${Confirm} title=${`Remove ${doing.name}?`} text="Its tools become unavailable immediately, also for active runs. Its sign-in tokens are deleted." action="Remove" onClose=${end}
      onDo=${() => attempt(() => remove(place).then(load).then(() => done("Tool server removed")))} />`}`;
}

/** @param {{server: any, onDo: (what: string) => void, onChange: () => void}} props */
function Server({ server, onDo, onChange }) {
  const [words, tone] = STATES[server.state] ?? [server.state, "quiet"];
  const reconnect = () => attempt(() => post(`/mcp/servers/${encodeURIComponent(server.name)}/reconnect`, {}, { once: false }).then(onChange));
  return html`<section class="item server" aria-label=${server.name} data-state=${server.state}>
    <div class="row wrap"><strong>${server.name}</strong><span class="state" data-tone=${tone}>${words}</span>
      ${server.since && html`<span class="quiet">since <${When} at=${server.since} /></span>`}
      ${server.required && html`<span class="tag" data-tone="warn">required</span>`}
      ${!server.trusted && html`<span class="tag">untrusted</span>`}
      <span class="fill"></span>
      ${isOperator.value && html`
        ${server.state === "needs_sign_in" && html`<button type="button" class="primary" onClick=${() => onDo("sign_in")}>Sign in</button>`}
        ${server.state !== "disabled" && html`<button type="button" onClick=${reconnect}>Reconnect</button>`}
        <button type="button" onClick=${() => onDo("log")}>Log</button>
        ${server.signed_in && html`<button type="button" onClick=${() => onDo("sign_out")}>Sign out</button>`}
        ${server.source === "added" && html`<button type="button" class="danger" onClick=${() => onDo("remove")}>Remove</button>`}`}
    </div>
    <p class="quiet">${[server.software, server.revision && `MCP ${server.revision}`, server.source === "added" ? "added here" : "from windlass.toml"].filter(Boolean).join(", ")}</p>
    ${server.state === "needs_sign_in" && html`<p class="note" data-tone="warning">Sign-in is required before its tools can be used.${isOperator.value ? "" : " An administrator of this server can sign in."}</p>`}
    ${server.last_error && html`<p class="note" data-tone="error">${server.last_error.replace(/[.]?$/, ".")}${server.retry_at ? ` Next attempt at ${full(server.retry_at)}.` : ""}</p>`}
    ${server.tools.length > 0
      ? html`<details><summary>${plural(server.tools.length, "tool")}</summary><ul class="plain-list">${server.tools.map((/** @type {any} */ tool) => html`<li key=${tool.name}><a href=${`/library/tools?tool=${encodeURIComponent(tool.name)}`}>${tool.name}</a> <span class="quiet">${[tool.title, tool.remote !== tool.name && `on the server: ${tool.remote}`, tool.tag].filter(Boolean).join(", ")}</span></li>`)}</ul></details>`
      : html`<p class="quiet">No tools.</p>`}
    ${server.state === "connected" && html`<${Prompts} server=${server.name} />`}
    ${server.left_out.length > 0 && html`<details><summary>${plural(server.left_out.length, "tool")} excluded</summary><ul class="plain-list">${server.left_out.map((/** @type {any} */ one) => html`<li key=${one.tool}><code>${one.tool}</code> <span class="quiet">${one.why}</span></li>`)}</ul></details>`}
  </section>`;
}

/** @param {{name: string, onClose: () => void}} props */
function Log({ name, onClose }) {
  const [lines, setLines] = useState(/** @type {string[] | null} */ (null));
  const read = () => attempt(async () => setLines((await get(`/mcp/servers/${encodeURIComponent(name)}/log`)).lines));
  useEffect(() => {
    read();
  }, []);
  return html`<${Dialog} title=${`Log of ${name}`} wide onClose=${onClose}>
    ${lines === null ? html`<${Wait} />` : lines.length === 0 ? html`<p class="empty">The log is empty.</p>` : html`<pre class="log" tabindex="0" aria-label="Log">${lines.join("\n")}</pre>`}
    <div class="row end"><button type="button" onClick=${read}>Refresh</button><button type="button" class="primary" autofocus onClick=${onClose}>Close</button></div>
  </${Dialog}>`;
}
