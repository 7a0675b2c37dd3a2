// The dialog that adds a tool server at run time.

import { post, told } from "../../lib/api.js";
import { html, useState } from "../../lib/html.js";
import { done } from "../../state/notices.js";
import { Dialog } from "../../view/dialog.js";

/** @param {{onClose: () => void, onAdded: () => void}} props */
export function AddServer({ onClose, onAdded }) {
  const [way, setWay] = useState("url");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState(/** @type {{title: string, hint: string} | null} */ (null));
  /** @param {any} event */
  const add = async (event) => {
    event.preventDefault();
    setBusy(true);
    setWrong(null);
    try {
      const draft = draftOf(event.target, way);
      // Send no idempotency key: the server must not store secrets with the request.
      await post("/mcp/servers", draft, { once: false });
      onAdded();
      onClose();
      done(`Connecting to ${draft.name}…`);
    } catch (error) {
      setWrong(told(error));
    } finally {
      setBusy(false);
    }
  };
  /** @param {string} value @param {string} words */
  const choice = (value, words) => html`<label class="check"><input type="radio" name="way" checked=${way === value} onChange=${() => setWay(value)} /> ${words}</label>`;
  return html`<${Dialog} title="Add a tool server" onClose=${onClose}><form class="stack" onSubmit=${add}>
    <label>Name <input name="name" required maxlength="32" pattern="[A-Za-z0-9_\\-]+" title="letters, digits, _ and -" placeholder="tracker" autofocus /></label>
    <fieldset class="choices"><legend>Connection</legend>${choice("url", "Remote server (URL)")}${choice("command", "Local program on this server")}</fieldset>
    ${way === "url"
      ? html`<label>URL <input name="url" type="url" required placeholder="https://mcp.example.com/mcp" /></label>
          <label>Headers (one per line) <textarea class="code" name="headers" rows="2" autocomplete="off" placeholder="Authorization: Bearer …"></textarea></label>
          <p class="quiet">Headers are stored encrypted and never shown again. If the server requires a sign-in, you can sign in after you have added it.</p>`
      : html`<label>Program <input class="code" name="command" required placeholder="npx" /></label>
          <label>Arguments (one per line) <textarea class="code" name="args" rows="3" placeholder="-y"></textarea></label>
          <p class="quiet">Requires <code>[server] mcp_commands</code> in <code>windlass.toml</code>.</p>`}
    <label class="check"><input type="checkbox" name="trusted" /> Trust this server's read-only hints</label>
    <details><summary>Advanced</summary><div class="stack">
      <label>Include only these tools (one per line) <textarea class="code" name="include" rows="2" placeholder="search_*"></textarea></label>
      <label>Exclude these tools (one per line) <textarea class="code" name="exclude" rows="2"></textarea></label>
      <label class="check"><input type="checkbox" name="always_prefix" /> Always prefix tool names with the server name</label>
      ${way === "url" && html`<label>Transport <select name="transport"><option value="http">Streamable HTTP</option><option value="sse">HTTP with SSE (2024)</option></select></label>
        <label>OAuth client ID (if registered manually) <input name="client_id" autocomplete="off" /></label>
        <label>OAuth client secret <input name="client_secret" type="password" autocomplete="off" /></label>
        <label>OAuth scopes (one per line) <textarea class="code" name="scopes" rows="2"></textarea></label>`}
    </div></details>
    ${wrong && html`<p class="wrong" role="alert">${wrong.title}${wrong.hint && html` <small>${wrong.hint}</small>`}</p>`}
    <div class="row end"><button type="button" onClick=${onClose}>Cancel</button><button type="submit" class="primary" disabled=${busy}>Add</button></div></form></${Dialog}>`;
}

/** @param {HTMLFormElement} form @param {string} way */
function draftOf(form, way) {
  const text = (/** @type {string} */ name) => String(/** @type {any} */ (form.elements.namedItem(name))?.value ?? "").trim();
  const lines = (/** @type {string} */ name) => text(name).split("\n").map((line) => line.trim()).filter(Boolean);
  const checked = (/** @type {string} */ name) => Boolean(/** @type {any} */ (form.elements.namedItem(name))?.checked);
  const own = way === "url" ? { url: text("url"), transport: text("transport") || "http", headers: headersOf(lines("headers")), scopes: lines("scopes"), ...some("client_id", text("client_id")), ...some("client_secret", text("client_secret")) } : { command: text("command"), args: lines("args") };
  return { name: text("name"), trusted: checked("trusted"), always_prefix: checked("always_prefix"), include: lines("include"), exclude: lines("exclude"), ...own };
}

/** @param {string} name @param {string} value */
const some = (name, value) => (value ? { [name]: value } : {});

/** @param {string[]} lines */
function headersOf(lines) {
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(":");
      if (at < 1) throw new Error(`“${line}” is not a header. Use “Name: value”.`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}
