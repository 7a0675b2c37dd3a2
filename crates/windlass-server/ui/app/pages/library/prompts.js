// Prompts of a tool server: list, fill in, and use in a new conversation.

import { get, post, told } from "../../lib/api.js";
import { visible, written } from "../../lib/exact.js";
import { html, useState } from "../../lib/html.js";
import { go } from "../../lib/route.js";
import { addToDraft } from "../../state/drafts.js";
import { mayRun } from "../../state/session.js";
import { Dialog } from "../../view/dialog.js";
import { Missing, useLoaded } from "../../view/loaded.js";

/** @typedef {{name: string, title: string | null, description: string | null, arguments: {name: string, description: string | null, required: boolean}[]}} Ready */

/** The prompts of a server, loaded when the list is opened. @param {{server: string}} props */
export function Prompts({ server }) {
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(/** @type {Ready | null} */ (null));
  return html`<details open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}><summary>Prompts</summary>
      ${open && html`<${List} server=${server} onChoose=${setChosen} />`}</details>
    ${chosen && html`<${Fill} server=${server} prompt=${chosen} onClose=${() => setChosen(null)} />`}`;
}

/** @param {{server: string, onChoose: (prompt: Ready) => void}} props */
function List({ server, onChoose }) {
  const read = useLoaded((stop) => get(`/mcp/servers/${encodeURIComponent(server)}/prompts`, { stop }), [server]);
  /** @type {{data: Ready[]} | null} */
  const page = read.value;
  if (!page) return html`<${Missing} of=${read} />`;
  if (page.data.length === 0) return html`<p class="quiet">No prompts.</p>`;
  return html`<ul class="plain-list">${page.data.map((prompt) => html`<li key=${prompt.name}><button type="button" class="plain" onClick=${() => onChoose(prompt)}>${prompt.title || prompt.name}</button> <span class="quiet">${prompt.description ?? ""}</span></li>`)}</ul>`;
}

/** @param {{server: string, prompt: Ready, onClose: () => void}} props */
function Fill({ server, prompt, onClose }) {
  const [busy, setBusy] = useState(false);
  const [messages, setMessages] = useState(/** @type {any[] | null} */ (null));
  const [wrong, setWrong] = useState(/** @type {{title: string, hint: string} | null} */ (null));
  /** @param {any} event */
  const fill = async (event) => {
    event.preventDefault();
    // An empty field means that the argument is absent.
    const given = prompt.arguments.map(({ name }, at) => [name, event.target.elements[`a${at}`].value]).filter(([, value]) => value !== "");
    setBusy(true);
    setWrong(null);
    setMessages(null);
    try {
      const place = `/mcp/servers/${encodeURIComponent(server)}/prompts/${encodeURIComponent(prompt.name)}`;
      setMessages((await post(place, { arguments: Object.fromEntries(given) }, { once: false })).messages);
    } catch (error) {
      setWrong(told(error));
    } finally {
      setBusy(false);
    }
  };
  const text = sayable(messages ?? []);
  const begin = () => {
    addToDraft("new", text);
    onClose();
    go("/");
  };
  return html`<${Dialog} title=${prompt.title || prompt.name} wide onClose=${onClose}>
    ${prompt.description && html`<p>${prompt.description}</p>`}
    <form class="stack" onSubmit=${fill}>
      ${prompt.arguments.map((one, at) => html`<label key=${one.name}>${one.name}${one.required ? "" : html` <span class="quiet">optional</span>`}${one.description && html` <small class="quiet">${one.description}</small>`}
        <input name=${`a${at}`} required=${one.required} autocomplete="off" /></label>`)}
      <div class="row end"><button type="button" onClick=${onClose}>Close</button><button type="submit" class=${messages ? "" : "primary"} disabled=${busy}>Preview</button></div>
    </form>
    <div role="status">${wrong && html`<p class="wrong">${wrong.title}${wrong.hint && html` <small>${wrong.hint}</small>`}</p>`}
      ${messages && html`<h3>Preview</h3>${messages.map((message, at) => html`<section key=${at} class="filled" aria-label=${whose(message)}><p class="quiet">${whose(message)}</p>${message.content.map(part)}</section>`)}`}</div>
    ${messages && mayRun.value && text && html`<div class="row end"><button type="button" class="primary" onClick=${begin}>Use in a new conversation</button></div>`}
  </${Dialog}>`;
}

/** @param {any} message */
const whose = (message) => (message.role === "assistant" ? "Assistant" : "User");

/** @param {any} one @param {number} at */
function part(one, at) {
  if (one.type === "image") return html`<img key=${at} class="shown" src=${one.data} alt=${one.title ?? "Image of the prompt"} />`;
  return html`<pre key=${at} tabindex="0">${typeof one.data === "string" ? visible(one.data) : written(one.data)}</pre>`;
}

/** Returns the text of the user's messages. A user cannot send the model's messages. @param {any[]} messages */
function sayable(messages) {
  const own = messages.filter((message) => message.role === "user");
  return own.flatMap((message) => message.content.filter((/** @type {any} */ one) => one.type !== "image" && typeof one.data === "string").map((/** @type {any} */ one) => one.data)).join("\n\n");
}
