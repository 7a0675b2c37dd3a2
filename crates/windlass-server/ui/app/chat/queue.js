// Queued messages: edit, send now, remove. (SK-U6, ZE-P7)

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { addToDraft, draftOf, keepDraft } from "../state/drafts.js";
import { isWhole } from "../state/entry.js";
import { attempt, warn } from "../state/notices.js";
import { useEditing } from "./editing.js";

/** @typedef {import("../state/conversation.js").Conversation} Conversation */

/** Descriptions of the time when a message is delivered, by its place in the queue. @type {Record<string, string>} */
const PLACES = {
  after_step: "after the current step",
  after_run: "when the run is done",
  after_cancel: "when the run has stopped",
};

/** @param {{conversation: Conversation}} props */
export function Queue({ conversation }) {
  const waiting = conversation.queue.value;
  const ready = conversation.ready.value;
  useEffect(() => {
    if (ready) rescue(conversation);
  }, [waiting, ready]);
  if (waiting.length === 0) return null;
  const held = !conversation.isActive.value
    ? "Nothing is running. Queued messages wait until you send them, or until the run of your next message is done."
    : conversation.open.value.length > 0
      ? "Answer the open request first."
      : "";
  return html`<section class="queue" aria-label="Queued messages">
    <p>${waiting.length === 1 ? "1 queued message." : `${waiting.length} queued messages.`} ${held}</p>
    <ol>${waiting.map((one) => html`<${Waits} key=${one.id} one=${one} conversation=${conversation} />`)}</ol>
  </section>`;
}

/** The draft that keeps unsaved edits of queued messages. @param {Conversation} conversation */
const place = (conversation) => `${conversation.id}.queue`;

/** Unsaved edits by message id. @param {Conversation} conversation @returns {Record<string, string>} */
const changes = (conversation) => JSON.parse(draftOf(place(conversation)).text || "{}");

/** @param {Conversation} conversation @param {string} id @param {string} text an empty text deletes the edit */
function keepChange(conversation, id, text) {
  const { [id]: _, ...others } = changes(conversation);
  const all = text ? { ...others, [id]: text } : others;
  keepDraft(place(conversation), Object.keys(all).length > 0 ? JSON.stringify(all) : "");
}

/** Moves unsaved edits into the composer if their messages have left the queue. @param {Conversation} conversation */
function rescue(conversation) {
  const lost = Object.entries(changes(conversation)).filter(([id]) => !conversation.line.find(id));
  if (lost.length === 0) return;
  const texts = lost.map(([, text]) => text);
  // The composer takes the text with the next frame; until then the draft keeps it.
  addToDraft(conversation.id, texts.join("\n"));
  for (const [id] of lost) keepChange(conversation, id, "");
  conversation.more.value = [conversation.more.value, ...texts].filter(Boolean).join("\n");
  warn("The message is no longer in the queue. Your edit was moved to the message field below.");
}

/** @param {{one: import("../state/line.js").Waiting, conversation: Conversation}} props */
function Waits({ one, conversation }) {
  const kept = useRef(/** @type {string | null} */ (null));
  kept.current ??= changes(conversation)[one.id] ?? "";
  const { editing, setEditing, button, field } = useEditing(kept.current !== "");
  const [busy, setBusy] = useState(false);
  /** @param {string} text */
  const change = (text) => keepChange(conversation, one.id, text);
  const close = () => {
    kept.current = "";
    change("");
    setEditing(false);
  };
  /** @param {string} text */
  const save = async (text) => {
    // The run may take the edited message before the response arrives: the edit must not be moved to the composer then.
    change("");
    try {
      if (text.trim() && text !== one.text) await conversation.line.edit(one.id, text);
    } catch (error) {
      change(text);
      // If the user has left the page, the next visit moves the edit to the composer.
      if (!conversation.stop.signal.aborted) rescue(conversation);
      throw error;
    }
    close();
  };
  if (editing) {
    return html`<li><form class="row" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      const text = event.target.elements.text.value;
      setBusy(true);
      attempt(() => save(text)).finally(() => setBusy(false));
    }}><textarea ref=${field} name="text" rows="2" aria-label="Message" readonly=${busy} defaultValue=${kept.current || one.text} onInput=${(/** @type {any} */ event) => change(event.target.value.trim() === one.text ? "" : event.target.value)}></textarea>
      <button type="submit" class="primary" disabled=${busy}>Save</button><button type="button" disabled=${busy} onClick=${close}>Cancel</button></form></li>`;
  }
  return html`<li class="row wrap"><span class="fill clip">${one.text}</span>
    ${conversation.isActive.value && PLACES[one.place] && html`<span class="quiet place">${PLACES[one.place]}</span>`}
    ${isWhole(one.blocks) && html`<button ref=${button} type="button" class="plain" onClick=${() => setEditing(true)}>Edit</button>`}
    <button type="button" class="plain" title=${conversation.isActive.value ? "Stop the run and send this message" : "Send this message"} onClick=${() => attempt(() => conversation.line.sendNow(one.id))}>${conversation.isActive.value ? "Stop and send" : "Send now"}</button>
    <button type="button" class="plain" onClick=${() => attempt(() => conversation.line.withdraw(one.id))}>Remove</button></li>`;
}
