// Sharing a conversation with the workspace, and what somebody who reads it is told.

import { get, put, remove, told } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { full } from "../lib/words.js";
import { attempt, done, failed } from "../state/notices.js";
import { isAdmin, mayRun } from "../state/session.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";

/** @typedef {{shared: boolean, by: {id: string, name: string} | null, at: number | null}} Sharing */

/** The address that a conversation is read at. @param {string} thread */
export const linkOf = (thread) => `${location.origin}/chat/${thread}`;

/** The button, for whoever may share it. @param {{thread: string}} props */
export function ShareButton({ thread }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="plain" aria-label="Share" title="Let people of this workspace read it" onClick=${() => setOpen(true)}><${Icon} name="share" /> <span class="wide-only">Share</span></button>
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
  const copy = () => navigator.clipboard.writeText(linkOf(thread)).then(() => done("The link is copied."), failed);
  return html`<${Dialog} title="Share this conversation" onClose=${onClose}>
    ${sharing === null
      ? wrong
        ? html`<p class="wrong" role="alert">It cannot be read whether it is shared: ${told(wrong).title}</p>`
        : html`<p aria-busy="true"><span class="spinner"></span></p>`
      : sharing.shared
        ? html`<p>Everybody in this workspace who has the link can read it, since ${full(sharing.at ?? 0)}. They write nothing here, answer nothing that it asks, and get none of its files.</p>
            <div class="stack"><label>The link <input readonly value=${linkOf(thread)} onFocus=${(/** @type {any} */ event) => event.target.select()} /></label></div>
            <p class="quiet">All that you share stands in your <a href="/settings/shared" onClick=${onClose}>settings</a>.</p>`
        : html`<p>Only you and the workspace's administrators can read it now.</p>
            <p>With a link, everybody in this workspace can read it: what was said, what tools were asked and what they answered, and what comes later. You can take that back at any time.</p>`}
    <div class="row wrap end"><button type="button" onClick=${onClose}>Close</button>
      ${wrong && html`<button type="button" class="primary" onClick=${read}>Try again</button>`}
      ${sharing?.shared && html`<button type="button" class="danger" disabled=${busy} onClick=${takeBack}>Take the link back</button><button type="button" class="primary" onClick=${copy}>Copy the link</button>`}
      ${sharing && !sharing.shared && html`<button type="button" class="primary" disabled=${busy} onClick=${share}>Make a link</button>`}</div>
  </${Dialog}>`;
}

/** What stands in place of the field, where somebody only reads. @param {{thread: string, own: boolean}} props */
export function ReadOnly({ thread, own }) {
  const [sharing, setSharing] = useState(/** @type {Sharing | null} */ (null));
  useEffect(() => {
    if (!own) get(`/threads/${thread}/share`).then(setSharing, () => {});
  }, [thread, own]);
  return html`<p class="read-only" role="note"><${Icon} name="eye" size=${16} /> ${words(own, sharing)}</p>`;
}

/** @param {boolean} own @param {Sharing | null} sharing */
function words(own, sharing) {
  if (own) return "You can read this, and not go on with it: your role starts nothing. An administrator can change that.";
  if (sharing?.shared) return `${sharing.by?.name || "Somebody"} shares this to be read. Only its owner writes here, and answers what it asks.`;
  if (isAdmin.value) return "You read this as an administrator. Only its owner writes here.";
  return mayRun.value ? "You can read this. Only its owner writes here." : "You can read this.";
}
