// The servers that tools come from: how they are, what they say, and who may change that.

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

/** How often it is looked again, in milliseconds: servers come and go by themselves. */
const LOOK_AGAIN_MS = 3000;

/** How a server is: in words, and how good that is. @type {Record<string, [string, string]>} */
const STATES = {
  starting: ["starting", "warn"],
  connected: ["connected", "good"],
  down: ["away", "bad"],
  needs_sign_in: ["sign-in needed", "warn"],
  disabled: ["switched off", "quiet"],
};

/** The section. */
export function Page() {
  const { data, load, loaded } = useData("/mcp/servers");
  /** What is done with which server. */
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
      <p>A tool server brings tools from elsewhere over MCP: a tracker, a wiki, a database. What they do passes the policy like everything else.</p>
      <p>${isOperator.value ? html`Add one here, or write it into <code>windlass.toml</code> below <code>[mcp.NAME]</code>.` : "Whoever runs this server can add some."}</p></div>`}
    ${data.data.map((/** @type {any} */ server) => html`<${Server} key=${server.name} server=${server} onDo=${(/** @type {any} */ what) => setDoing({ what, name: server.name })} onChange=${load} />`)}
    ${isOperator.value && html`<p><button type="button" class="primary" onClick=${() => setDoing({ what: "add", name: "" })}>Add a tool server</button></p>`}
    ${doing.what === "add" && html`<${AddServer} onClose=${end} onAdded=${load} />`}
    ${doing.what === "log" && html`<${Log} name=${doing.name} onClose=${end} />`}
    ${doing.what === "sign_in" && html`<${SignIn} name=${doing.name} state=${data.data.find((/** @type {any} */ one) => one.name === doing.name)?.state} onLook=${load} onClose=${end} />`}
    ${doing.what === "sign_out" && html`<${Confirm} title=${`Sign out at ${doing.name}?`} text="Its tokens are forgotten, for everybody who uses it here. Calls of its tools then wait for a sign-in." action="Sign out" keep="Stay signed in" onClose=${end}
      onDo=${() => attempt(() => remove(`${place}/sign-in`).then(load))} />`}
    ${doing.what === "remove" && html`<${Confirm} title=${`Take ${doing.name} out?`} text="Its tools are gone at once, also for runs that are under way, and what its sign-in left behind is deleted." action="Take it out" onClose=${end}
      onDo=${() => attempt(() => remove(place).then(load).then(() => done("It is out.")))} />`}`;
}

/** @param {{server: any, onDo: (what: string) => void, onChange: () => void}} props */
function Server({ server, onDo, onChange }) {
  const [words, tone] = STATES[server.state] ?? [server.state, "quiet"];
  const reconnect = () => attempt(() => post(`/mcp/servers/${encodeURIComponent(server.name)}/reconnect`, {}, { once: false }).then(onChange));
  return html`<section class="item server" aria-label=${server.name} data-state=${server.state}>
    <div class="row wrap"><strong>${server.name}</strong><span class="state" data-tone=${tone}>${words}</span>
      ${server.since && html`<span class="quiet">since <${When} at=${server.since} /></span>`}
      ${server.required && html`<span class="tag" data-tone="warn">required</span>`}
      ${!server.trusted && html`<span class="tag">hints not believed</span>`}
      <span class="fill"></span>
      ${isOperator.value && html`
        ${server.state === "needs_sign_in" && html`<button type="button" class="primary" onClick=${() => onDo("sign_in")}>Sign in</button>`}
        ${server.state !== "disabled" && html`<button type="button" onClick=${reconnect}>Reconnect</button>`}
        <button type="button" onClick=${() => onDo("log")}>Log</button>
        ${server.signed_in && html`<button type="button" onClick=${() => onDo("sign_out")}>Sign out</button>`}
        ${server.source === "added" && html`<button type="button" class="danger" onClick=${() => onDo("remove")}>Take out</button>`}`}
    </div>
    <p class="quiet">${[server.software, server.revision && `MCP ${server.revision}`, server.source === "added" ? "added here" : "in windlass.toml"].filter(Boolean).join(", ")}</p>
    ${server.state === "needs_sign_in" && html`<p class="note" data-tone="warning">Somebody has to sign in there before its tools can be used.${isOperator.value ? "" : " Whoever runs this server can do that."}</p>`}
    ${server.last_error && html`<p class="note" data-tone="error">${server.last_error.replace(/[.]?$/, ".")}${server.retry_at ? ` It is tried again at ${full(server.retry_at)}.` : ""}</p>`}
    ${server.tools.length > 0
      ? html`<details><summary>${plural(server.tools.length, "tool")}</summary><ul class="plain-list">${server.tools.map((/** @type {any} */ tool) => html`<li key=${tool.name}><a href=${`/library/tools?tool=${encodeURIComponent(tool.name)}`}>${tool.name}</a> <span class="quiet">${[tool.title, tool.remote !== tool.name && `there: ${tool.remote}`, tool.tag].filter(Boolean).join(", ")}</span></li>`)}</ul></details>`
      : html`<p class="quiet">No tools of it are known.</p>`}
    ${server.state === "connected" && html`<${Prompts} server=${server.name} />`}
    ${server.left_out.length > 0 && html`<details><summary>${plural(server.left_out.length, "tool")} left out</summary><ul class="plain-list">${server.left_out.map((/** @type {any} */ one) => html`<li key=${one.tool}><code>${one.tool}</code> <span class="quiet">${one.why}</span></li>`)}</ul></details>`}
  </section>`;
}

/** @param {{name: string, onClose: () => void}} props */
function Log({ name, onClose }) {
  const [lines, setLines] = useState(/** @type {string[] | null} */ (null));
  const read = () => attempt(async () => setLines((await get(`/mcp/servers/${encodeURIComponent(name)}/log`)).lines));
  useEffect(() => {
    read();
  }, []);
  return html`<${Dialog} title=${`What ${name} has said`} wide onClose=${onClose}>
    ${lines === null ? html`<${Wait} />` : lines.length === 0 ? html`<p class="empty">Nothing yet.</p>` : html`<pre class="log" tabindex="0" aria-label="Lines of the log">${lines.join("\n")}</pre>`}
    <div class="row end"><button type="button" onClick=${read}>Read it again</button><button type="button" class="primary" autofocus onClick=${onClose}>Close</button></div>
  </${Dialog}>`;
}
