// The background commands of a conversation: list and stop.

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

/** Polling interval while commands may start or end, in milliseconds. */
const LOOK_AGAIN_MS = 5000;

/** The button; hidden if there are no commands. @param {{thread: string, busy: boolean}} props `busy`: whether a run is active, which may start commands */
export function CommandsButton({ thread, busy }) {
  const [commands, setCommands] = useState(/** @type {Command[]} */ ([]));
  const [open, setOpen] = useState(false);
  const some = commands.length;
  // The next poll repeats a failed read.
  const read = () => get(`/threads/${thread}/commands`).then((page) => setCommands(page.data), () => {});
  useEffect(() => void read(), [thread, busy]);
  useEffect(() => {
    if (!busy && some === 0 && !open) return undefined;
    const timer = setInterval(() => document.hidden || read(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [thread, busy, some > 0, open]);
  if (some === 0 && !open) return null;
  // The button that opened the dialog may have disappeared.
  const close = () => {
    setOpen(false);
    goOn();
  };
  return html`<button type="button" class="plain" aria-label=${`Commands, ${some} running`} title="Background commands" onClick=${() => setOpen(true)}><${Icon} name="tool" /> <span class="wide-only">Commands</span> <span class="count">${some}</span></button>
    ${open && html`<${Commands} thread=${thread} commands=${commands} onEnd=${read} onClose=${close} />`}`;
}

/** @param {{thread: string, commands: Command[], onEnd: () => Promise<void>, onClose: () => void}} props */
function Commands({ thread, commands, onEnd, onClose }) {
  return html`<${Dialog} title="Background commands" onClose=${onClose}>
    <div role="status" class="hidden">${commands.length} running</div>
    ${commands.length === 0 ? html`<p class="empty">No commands are running.</p>` : html`<ul class="commands">${commands.map((one) => html`<${Row} key=${one.id} thread=${thread} command=${one} onEnd=${onEnd} />`)}</ul>`}
    <div class="row end"><button type="button" onClick=${onClose} autofocus>Close</button></div>
  </${Dialog}>`;
}

/** @param {{thread: string, command: Command, onEnd: () => Promise<void>}} props */
function Row({ thread, command, onEnd }) {
  const [busy, setBusy] = useState(false);
  /** @param {any} event */
  const end = async (event) => {
    // The button disappears with its command, so move the focus to keep it in the dialog.
    event.target.closest("dialog")?.querySelector(".end button")?.focus();
    setBusy(true);
    await attempt(() => remove(`/threads/${thread}/commands/${encodeURIComponent(command.id)}`));
    // Reload after an error, too: the command may have ended without a request.
    await onEnd();
    setBusy(false);
  };
  return html`<li>
    <pre tabindex="0">${command.command}</pre>
    <div class="row wrap"><span class="fill quiet"><code>${command.id}</code> ${busy ? "stopping…" : html`running since <time>${full(command.begun_at)}</time>, <${Ticking} words=${(/** @type {number} */ now) => length(now - command.begun_at)} of=${[command.begun_at]} />`}</span>
      ${mayRun.value && html`<button type="button" class="danger" aria-label=${`Stop ${command.id}`} disabled=${busy} onClick=${end}>Stop</button>`}</div>
  </li>`;
}
