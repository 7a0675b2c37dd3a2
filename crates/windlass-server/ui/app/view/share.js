// Sharing a conversation with the workspace, and the note that its readers see.

import { get, put, remove, told } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { full } from "../lib/words.js";
import { attempt, done, failed } from "../state/notices.js";
import { isAdmin, mayRun } from "../state/session.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";

/** @typedef {{shared: boolean, by: {id: string, name: string} | null, at: number | null}} Sharing */

/** Returns the URL of a conversation. @param {string} thread */
export const linkOf = (thread) => `${location.origin}/chat/${thread}`;

/** The button that opens the dialog. @param {{thread: string}} props */
export function ShareButton({ thread }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="plain" aria-label="Share" title="Share with people in this workspace" onClick=${() => setOpen(true)}><${Icon} name="share" /> <span class="wide-only">Share</span></button>
    ${open && html`<${ShareDialog} thread=${thread} onClose=${() => setOpen(false)} />`}`;
}

/** @param {{thread: string, onClose: () => void}} props */
function ShareDialog({ thread, onClose }) {
  const [sharing, setSharing] = useState(/** @type {Sharing | null} */ (null));
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState(/** @type {unknown} */ (null));
  const place = `/threads/${thread}/share`;
  const read = () => {
    setWrong(null);
    get(place).then(setSharing, setWrong);
  };
  useEffect(read, []);
  /** @param {() => Promise<Sharing>} act */
  const change = async (act) => {
    setBusy(true);
    await attempt(async () => setSharing(await act()));
    setBusy(false);
  };
  const share = () => change(() => put(place));
  const takeBack = () => change(async () => (await remove(place), { shared: false, by: null, at: null }));
  const copy = () => navigator.clipboard.writeText(linkOf(thread)).then(() => done("Link copied"), failed);
  return html`<${Dialog} title="Share this conversation" onClose=${onClose}>
    ${sharing === null
      ? wrong
        ? html`<p class="wrong" role="alert">Cannot load the sharing status: ${told(wrong).title}</p>`
        : html`<p aria-busy="true"><span class="spinner"></span></p>`
      : sharing.shared
        ? html`<p>Everyone in this workspace with the link can read this conversation, since ${full(sharing.at ?? 0)}. They cannot write messages, answer requests or download files.</p>
            <div class="stack"><label>Link <input readonly value=${linkOf(thread)} onFocus=${(/** @type {any} */ event) => event.target.select()} /></label></div>
            <p class="quiet">Your <a href="/settings/shared" onClick=${onClose}>settings</a> list everything that you share.</p>`
        : html`<p>Only you and the workspace's administrators can read this conversation.</p>
            <p>With a link, everyone in this workspace can read its messages, tool calls and results, including later ones. You can revoke the link at any time.</p>`}
    <div class="row wrap end"><button type="button" onClick=${onClose}>Close</button>
      ${wrong && html`<button type="button" class="primary" onClick=${read}>Try again</button>`}
      ${sharing?.shared && html`<button type="button" class="danger" disabled=${busy} onClick=${takeBack}>Revoke link</button><button type="button" class="primary" onClick=${copy}>Copy link</button>`}
      ${sharing && !sharing.shared && html`<button type="button" class="primary" disabled=${busy} onClick=${share}>Create link</button>`}</div>
  </${Dialog}>`;
}

/** The note that readers see instead of the composer. @param {{thread: string, own: boolean}} props */
export function ReadOnly({ thread, own }) {
  const [sharing, setSharing] = useState(/** @type {Sharing | null} */ (null));
  useEffect(() => {
    if (!own) get(`/threads/${thread}/share`).then(setSharing, () => {});
  }, [thread, own]);
  return html`<p class="read-only" role="note"><${Icon} name="eye" size=${16} /> ${words(own, sharing)}</p>`;
}

/** @param {boolean} own @param {Sharing | null} sharing */
function words(own, sharing) {
  if (own) return "You can read this conversation, but your role cannot start runs. An administrator can change your role.";
  if (sharing?.shared) return `Shared by ${sharing.by?.name || "its owner"}. Only the owner can write messages and answer requests.`;
  if (isAdmin.value) return "You are viewing this as an administrator. Only the owner can write messages.";
  return mayRun.value ? "You can read this conversation. Only the owner can write messages." : "You can read this conversation.";
}
