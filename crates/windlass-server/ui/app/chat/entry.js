// One entry of a conversation.

import { html, useState } from "../lib/html.js";
import { plain } from "../lib/plain.js";
import { clock, full, group, length, microUsd, plural } from "../lib/words.js";
import { attempt, done, failed } from "../state/notices.js";
import { Icon } from "../view/icon.js";
import { Markdown } from "../view/markdown.js";
import { CallCard } from "./call.js";
import { useEditing } from "./editing.js";
import { Media } from "./picture.js";
import { TryAgain } from "./retry.js";
import { RollbackLine } from "./rollback.js";
import { Thought } from "./thought.js";

/**
 * @typedef {import("../state/entry.js").Entry} Shown
 * @typedef {(entry: Shown, text?: string, said?: Shown[]) => Promise<void>} OnFork `said`: the messages whose attachments are sent, if not only this entry
 * @typedef {{entry: Shown, onFork?: OnFork, onBack?: (entry: Shown) => void}} Props
 */

/** An entry, preceded by the rollback line if the rollback starts here. @param {Props & {conversation: import("../state/conversation.js").Conversation}} props */
export function EntryView({ entry, onFork, onBack, conversation }) {
  entry.rev.value;
  const rollback = conversation.rollback.plan.value;
  const rolled = rollback !== null && entry.seq >= rollback.seq;
  return html`${rolled && entry.seq === rollback.seq && html`<${RollbackLine} rollback=${rollback} onCancel=${() => (conversation.rollback.plan.value = null)} />`}
    ${entry.role === "note" && html`<p class="note" data-tone=${entry.tone} data-rolled=${rolled}>${entry.text}</p>
      ${entry.ends && onFork && html`<div class="after-note"><${TryAgain} entry=${entry} conversation=${conversation} onFork=${onFork} /></div>`}`}
    ${entry.role === "user" && html`<${Said} entry=${entry} conversation=${conversation} rolled=${rolled} onFork=${onFork} onBack=${onBack} />`}
    ${entry.role === "assistant" && html`<${Answered} entry=${entry} rolled=${rolled} onFork=${onFork} conversation=${conversation} />`}`;
}

/** @param {Props & {rolled: boolean, conversation: import("../state/conversation.js").Conversation}} props */
function Answered({ entry, rolled, onFork, conversation }) {
  entry.rev.value;
  const live = entry.status === "live";
  return html`<article class="entry assistant" data-status=${entry.status} data-rolled=${rolled} aria-label="Agent">
    ${entry.parts.map((part, at) => {
      if (!part) return null;
      if (part.type === "reasoning") return html`<${Thought} key=${at} part=${part} live=${live && at === entry.parts.length - 1} />`;
      if (part.type === "text") return html`<${Markdown} key=${at} text=${part.text} live=${live} />`;
      return html`<${CallCard} key=${`call-${part.call.index}`} call=${part.call} at=${entry.at} conversation=${conversation} />`;
    })}
    ${live && entry.parts.length === 0 && html`<p class="working" role="status"><span class="spinner"></span> ${entry.model}</p>`}
    ${entry.trouble && html`<p class="note" data-tone="warning">${entry.trouble}</p>`}
    ${entry.status === "partial" && entry.stop === "cancelled" && html`<p class="quiet">Stopped here.</p>`}
    ${entry.status === "withdrawn" && html`<p class="quiet">Withdrawn: this is no longer part of the agent's context.</p>`}
    ${!live && html`<${Actions} entry=${entry} onFork=${onFork} conversation=${conversation} />`}
  </article>`;
}

/** @param {Props & {conversation: import("../state/conversation.js").Conversation, rolled: boolean}} props */
function Said({ entry, conversation, rolled, onFork, onBack }) {
  const { editing, setEditing, button, field } = useEditing();
  const [busy, setBusy] = useState(false);
  if (editing && onFork) {
    return html`<article class="entry user"><form class="said" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      const text = event.target.elements.text.value.trim();
      if (!text) return;
      setBusy(true);
      // Keep the text in this field until the new conversation exists.
      attempt(() => onFork(entry, text).then(() => setEditing(false))).finally(() => setBusy(false));
    }}><textarea ref=${field} name="text" rows="4" aria-label="Message" defaultValue=${entry.text}></textarea>
      <p class="quiet">Your message continues from here in a new conversation. This conversation does not change.</p>
      ${entry.media.length > 0 && html`<p class="quiet">${plural(entry.media.length, "attachment")} will be included.</p>`}
      <div class="row end"><button type="button" onClick=${() => setEditing(false)}>Cancel</button><button type="submit" class="primary" disabled=${busy}>Send</button></div></form></article>`;
  }
  return html`<article class="entry user" data-status=${entry.status} data-rolled=${rolled} aria-label="You">
    <div class="said">${entry.text}
      ${entry.media.length > 0 && html`<ul class="chips">${entry.media.map((one) => html`<li data-kind=${one.kind}><${Media} thread=${conversation.id} block=${one} /></li>`)}</ul>`}
    </div>
    <div class="actions"><time title=${full(entry.at)}>${saidAt(entry.at)}</time>
      <${Copy} text=${entry.text} label="Copy" />
      ${onFork && isAtRest(conversation) && entry.status !== "withdrawn" && !entry.steers && entry.isWhole && html`<button ref=${button} type="button" class="plain" onClick=${() => setEditing(true)}>Edit</button>`}
      ${entry.steers && html`<span class="quiet">sent during the run</span>`}
      ${onBack && isAtRest(conversation) && entry.status === "complete" && !entry.steers && html`<button type="button" class="plain" title="Continue from before this message in a new conversation, with the files at that time" onClick=${() => onBack(entry)}>Roll back</button>`}
    </div>
  </article>`;
}

/** @param {Props & {conversation: import("../state/conversation.js").Conversation}} props */
function Actions({ entry, onFork, conversation }) {
  const [busy, setBusy] = useState(false);
  const fork = () => {
    setBusy(true);
    attempt(async () => onFork?.(entry)).finally(() => setBusy(false));
  };
  const text = entry.text;
  // A step with tool calls is not the final answer.
  if (!entry.totals && (!text || !entry.calls().next().done)) return null;
  const figures = [entry.model, entry.durationMs === null ? "" : length(entry.durationMs), entry.costMicro ? microUsd(entry.costMicro) : ""].filter(Boolean).join(" · ");
  return html`<div class="actions">
    ${text && html`<${Copy} text=${() => plain(text)} label="Copy text" /><${Copy} text=${text} label="Copy Markdown" />`}
    ${onFork && isAtRest(conversation) && entry.status !== "withdrawn" && entry.calls().next().done && html`<button type="button" class="plain" title="Continue from here in a new conversation" disabled=${busy} onClick=${fork}><${Icon} name="fork" size=${14} /> Fork</button>`}
    ${onFork && ["complete", "fallback"].includes(entry.status) && entry.calls().next().done && html`<${TryAgain} entry=${entry} conversation=${conversation} onFork=${onFork} />`}
    ${conversation.isMine.value && entry.run && html`<a class="button plain" href=${`/runs/${entry.run}`} title="Show the steps of this run">Steps</a>`}
    ${figures && html`<span class="quiet" title=${full(entry.at)}>${figures}</span>`}
  </div>`;
}

/** @param {{text: string | (() => string), label: string}} props */
const Copy = ({ text, label }) => html`<button type="button" class="plain" onClick=${() => navigator.clipboard.writeText(typeof text === "string" ? text : text()).then(() => done("Copied"), failed)}>${label}</button>`;

/**
 * Whether a fork can copy the conversation's folder: an active run may change files.
 * @param {import("../state/conversation.js").Conversation} conversation
 */
const isAtRest = (conversation) => conversation.status.value !== "running";

/** Returns the time of a message, with the date unless the message is from today. @param {number} at */
const saidAt = (at) => (group(at) === "Today" ? clock(at) : full(at));
