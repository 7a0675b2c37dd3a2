// One entry of a conversation.

import { html, useState } from "../lib/html.js";
import { full, length, microUsd } from "../lib/words.js";
import { attempt, done, failed } from "../state/notices.js";
import { Icon } from "../view/icon.js";
import { Markdown } from "../view/markdown.js";
import { CallCard } from "./call.js";

/** Characters of reasoning that are shown before somebody asks for more. (SK-U3) */
const THOUGHT_SHOWN = 300;

/** @param {{entry: import("../state/entry.js").Entry, onFork?: (entry: any, text?: string) => Promise<void>, conversation: any}} props */
export function EntryView({ entry, onFork, conversation }) {
  entry.rev.value;
  if (entry.role === "note") return html`<p class="note" data-tone=${entry.tone} role=${entry.tone === "error" ? "alert" : undefined}>${entry.text}</p>`;
  if (entry.role === "user") return html`<${Said} entry=${entry} onFork=${onFork} />`;
  const live = entry.status === "live";
  return html`<article class="entry assistant" data-status=${entry.status} aria-label="The agent">
    ${entry.parts.map((part, at) => {
      if (!part) return null;
      if (part.type === "reasoning") return html`<${Thought} key=${at} entry=${entry} text=${part.text} live=${live && at === entry.parts.length - 1} />`;
      if (part.type === "text") return html`<${Markdown} key=${at} text=${part.text} live=${live} />`;
      return html`<${CallCard} key=${part.call.id || at} call=${part.call} conversation=${conversation} />`;
    })}
    ${live && entry.parts.length === 0 && html`<p class="working" role="status"><span class="spinner"></span> ${entry.model}</p>`}
    ${entry.trouble && html`<p class="note" data-tone="warning">${entry.trouble}</p>`}
    ${entry.status === "partial" && !entry.trouble && html`<p class="quiet">Stopped here.</p>`}
    ${entry.status === "withdrawn" && html`<p class="quiet">Taken back: the agent does not know of it any more.</p>`}
    ${!live && html`<${Actions} entry=${entry} onFork=${onFork} />`}
  </article>`;
}

/** @param {{entry: import("../state/entry.js").Entry, onFork?: (entry: any, text?: string) => Promise<void>}} props */
function Said({ entry, onFork }) {
  const [editing, setEditing] = useState(false);
  const [busy, setBusy] = useState(false);
  if (editing && onFork) {
    return html`<article class="entry user"><form class="said" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      const text = event.target.elements.text.value.trim();
      if (!text) return;
      setBusy(true);
      // What was written stays here until there is a conversation that has it.
      attempt(() => onFork(entry, text).then(() => setEditing(false))).finally(() => setBusy(false));
    }}><textarea name="text" rows="4" aria-label="The message" defaultValue=${entry.text}></textarea>
      <p class="quiet">A new conversation begins here with what you write; this one stays as it is.</p>
      <div class="row end"><button type="button" onClick=${() => setEditing(false)}>Cancel</button><button type="submit" class="primary" disabled=${busy}>Send</button></div></form></article>`;
  }
  return html`<article class="entry user" data-status=${entry.status} aria-label="You">
    <div class="said">${entry.text}
      ${entry.media.length > 0 && html`<ul class="chips">${entry.media.map((one) => html`<li>${one.name ?? one.blob?.media_type ?? "a picture"}</li>`)}</ul>`}
    </div>
    <div class="actions"><time title=${full(entry.at)}>${new Date(entry.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}</time>
      <${Copy} text=${entry.text} label="Copy" />
      ${onFork && entry.status !== "withdrawn" && html`<button type="button" class="plain" onClick=${() => setEditing(true)}>Edit</button>`}
    </div>
  </article>`;
}

/** What the model thought, open while it thinks. (SK-U3) @param {{entry: import("../state/entry.js").Entry, text: string, live: boolean}} props */
function Thought({ entry, text, live }) {
  const [open, setOpen] = useState(/** @type {boolean | null} */ (null));
  const [all, setAll] = useState(false);
  const ms = entry.thoughtFrom ? (entry.thoughtUntil || Date.now()) - entry.thoughtFrom : 0;
  const head = live ? "Thinking…" : ms > 100 ? `Thought for ${length(ms)}` : "Thought";
  const shown = live ? text.slice(-THOUGHT_SHOWN * 2) : all ? text : text.slice(0, THOUGHT_SHOWN);
  return html`<details class="thought" open=${open ?? live} onToggle=${(/** @type {any} */ event) => event.target.open !== (open ?? live) && setOpen(event.target.open)}>
    <summary>${head}</summary><p>${shown}${!live && !all && text.length > THOUGHT_SHOWN && html`… <button type="button" class="plain" onClick=${() => setAll(true)}>Show all</button>`}</p>
  </details>`;
}

/** @param {{entry: import("../state/entry.js").Entry, onFork?: (entry: any, text?: string) => Promise<void>}} props */
function Actions({ entry, onFork }) {
  const [busy, setBusy] = useState(false);
  const fork = () => {
    setBusy(true);
    attempt(async () => onFork?.(entry)).finally(() => setBusy(false));
  };
  const text = entry.text;
  // A step that goes on with calls is no answer yet.
  if (!entry.totals && (!text || !entry.calls().next().done)) return null;
  const figures = [entry.model, entry.durationMs === null ? "" : length(entry.durationMs), entry.costMicro ? microUsd(entry.costMicro) : ""].filter(Boolean).join(" · ");
  return html`<div class="actions">
    ${text && html`<${Copy} text=${plain(text)} label="Copy text" /><${Copy} text=${text} label="Copy Markdown" />`}
    ${onFork && entry.status === "complete" && entry.calls().next().done && html`<button type="button" class="plain" title="Begin another conversation from here" disabled=${busy} onClick=${fork}><${Icon} name="fork" size=${14} /> Fork</button>`}
    ${figures && html`<span class="quiet" title=${full(entry.at)}>${figures}</span>`}
  </div>`;
}

/** Markdown without its marks. @param {string} text */
const plain = (text) =>
  text
    .replace(/^```.*$/gm, "")
    .replace(/^#{1,6} /gm, "")
    .replace(/(\*\*|__|`)(.+?)\1/g, "$2")
    .replace(/\[([^\]]+)\]\(([^)]+)\)/g, "$1 ($2)");

/** @param {{text: string, label: string}} props */
const Copy = ({ text, label }) => html`<button type="button" class="plain" onClick=${() => navigator.clipboard.writeText(text).then(() => done("Copied"), failed)}>${label}</button>`;
