// Adding a tool server while this one runs.

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
      // Secrets may be in it, which are kept for nobody's second try.
      await post("/mcp/servers", draft, { once: false });
      onAdded();
      onClose();
      done(`${draft.name} is being reached.`);
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
    <fieldset class="choices"><legend>How it is reached</legend>${choice("url", "at an address")}${choice("command", "as a program on the server's machine")}</fieldset>
    ${way === "url"
      ? html`<label>Address <input name="url" type="url" required placeholder="https://mcp.example.com/mcp" /></label>
          <label>Headers, one in each line <textarea class="code" name="headers" rows="2" autocomplete="off" placeholder="Authorization: Bearer …"></textarea></label>
          <p class="quiet">They are kept sealed and never shown again. Where none says who calls, you can sign in after it is added.</p>`
      : html`<label>Program <input class="code" name="command" required placeholder="npx" /></label>
          <label>Arguments, one in each line <textarea class="code" name="args" rows="3" placeholder="-y"></textarea></label>
          <p class="quiet">Programs are started only where <code>[server] mcp_commands</code> in <code>windlass.toml</code> allows it.</p>`}
    <label class="check"><input type="checkbox" name="trusted" /> Believe what it says its tools do</label>
    <details><summary>More</summary><div class="stack">
      <label>Only these tools, one in each line <textarea class="code" name="include" rows="2" placeholder="search_*"></textarea></label>
      <label>Not these tools <textarea class="code" name="exclude" rows="2"></textarea></label>
      <label class="check"><input type="checkbox" name="always_prefix" /> Its name always stands before its tools' names</label>
      ${way === "url" && html`<label>Spoken as <select name="transport"><option value="http">Streamable HTTP</option><option value="sse">HTTP with SSE, of 2024</option></select></label>
        <label>Client at its sign-in, where one was registered by hand <input name="client_id" autocomplete="off" /></label>
        <label>That client's secret <input name="client_secret" type="password" autocomplete="off" /></label>
        <label>What is asked for at its sign-in, one in each line <textarea class="code" name="scopes" rows="2"></textarea></label>`}
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
      if (at < 1) throw new Error(`“${line}” is no header; write “Name: value”.`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}
