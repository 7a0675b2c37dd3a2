// The commands that a conversation has at work in the background: what they are, since when, and an end to them.

import { get, remove } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { full, length } from "../lib/words.js";
import { attempt } from "../state/notices.js";
import { mayRun } from "../state/session.js";
import { goOn } from "./asks.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";
import { Ticking } from "./ticking.js";

/** @typedef {{id: string, command: string, run: string, begun_at: number}} Command */

/** How often it is looked again while some may begin or end. */
const LOOK_AGAIN_MS = 5000;

/** The button, where there are some. @param {{thread: string, busy: boolean}} props `busy`: whether a run is at work, which may begin some */
export function CommandsButton({ thread, busy }) {
  const [commands, setCommands] = useState(/** @type {Command[]} */ ([]));
  const [open, setOpen] = useState(false);
  const some = commands.length;
  // What could not be read is looked at again.
  const read = () => get(`/threads/${thread}/commands`).then((page) => setCommands(page.data), () => {});
  useEffect(() => void read(), [thread, busy]);
  useEffect(() => {
    if (!busy && some === 0 && !open) return undefined;
    const timer = setInterval(() => document.hidden || read(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [thread, busy, some > 0, open]);
  if (some === 0 && !open) return null;
  // The button may have gone behind the dialog.
  const close = () => {
    setOpen(false);
    goOn();
  };
  return html`<button type="button" class="plain" aria-label=${`Commands, ${some} at work`} title="Commands in the background" onClick=${() => setOpen(true)}><${Icon} name="tool" /> <span class="wide-only">Commands</span> <span class="count">${some}</span></button>
    ${open && html`<${Commands} thread=${thread} commands=${commands} onEnd=${read} onClose=${close} />`}`;
}

/** @param {{thread: string, commands: Command[], onEnd: () => Promise<void>, onClose: () => void}} props */
function Commands({ thread, commands, onEnd, onClose }) {
  return html`<${Dialog} title="Commands in the background" onClose=${onClose}>
    <div role="status" class="hidden">${commands.length} at work</div>
    ${commands.length === 0 ? html`<p class="empty">None is at work any more.</p>` : html`<ul class="commands">${commands.map((one) => html`<${Row} key=${one.id} thread=${thread} command=${one} onEnd=${onEnd} />`)}</ul>`}
    <div class="row end"><button type="button" onClick=${onClose} autofocus>Close</button></div>
  </${Dialog}>`;
}

/** @param {{thread: string, command: Command, onEnd: () => Promise<void>}} props */
function Row({ thread, command, onEnd }) {
  const [busy, setBusy] = useState(false);
  /** @param {any} event */
  const end = async (event) => {
    // The button goes with what it ends: the focus stays in the dialog.
    event.target.closest("dialog")?.querySelector(".end button")?.focus();
    setBusy(true);
    await attempt(() => remove(`/threads/${thread}/commands/${encodeURIComponent(command.id)}`));
    // Also where it failed: it may have ended by itself.
    await onEnd();
    setBusy(false);
  };
  return html`<li>
    <pre tabindex="0">${command.command}</pre>
    <div class="row wrap"><span class="fill quiet"><code>${command.id}</code> ${busy ? "is being ended" : html`at work since <time>${full(command.begun_at)}</time>, <${Ticking} words=${(/** @type {number} */ now) => length(now - command.begun_at)} of=${[command.begun_at]} />`}</span>
      ${mayRun.value && html`<button type="button" class="danger" aria-label=${`End ${command.id}`} disabled=${busy} onClick=${end}>End it</button>`}</div>
  </li>`;
}
