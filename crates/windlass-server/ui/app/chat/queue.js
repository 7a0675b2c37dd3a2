// Messages that wait until the agent can be told: changed, sent now, or taken back. (SK-U6, ZE-P7)

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { addToDraft, draftOf, keepDraft } from "../state/drafts.js";
import { isWhole } from "../state/entry.js";
import { attempt, warn } from "../state/notices.js";
import { useEditing } from "./editing.js";

/** @typedef {import("../state/conversation.js").Conversation} Conversation */

/** When a message goes, by its place. @type {Record<string, string>} */
const PLACES = {
  after_step: "goes in after the current step",
  after_run: "goes when the run is done",
  after_cancel: "goes as soon as the run has stopped",
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
    ? "Nothing is at work: they stay until you send them, or until your next message is done."
    : conversation.open.value.length > 0
      ? "They go when what is asked is answered."
      : "";
  return html`<section class="queue" aria-label="Messages that wait">
    <p>${waiting.length === 1 ? "1 message waits." : `${waiting.length} messages wait.`} ${held}</p>
    <ol>${waiting.map((one) => html`<${Waits} key=${one.id} one=${one} conversation=${conversation} />`)}</ol>
  </section>`;
}

/** Where it is kept what messages are changed into, until that is saved. @param {Conversation} conversation */
const place = (conversation) => `${conversation.id}.queue`;

/** What messages are changed into, by their ids. @param {Conversation} conversation @returns {Record<string, string>} */
const changes = (conversation) => JSON.parse(draftOf(place(conversation)).text || "{}");

/** @param {Conversation} conversation @param {string} id @param {string} text nothing forgets it */
function keepChange(conversation, id, text) {
  const { [id]: _, ...others } = changes(conversation);
  const all = text ? { ...others, [id]: text } : others;
  keepDraft(place(conversation), Object.keys(all).length > 0 ? JSON.stringify(all) : "");
}

/** Takes what messages were being changed into that wait no longer into the field for messages. @param {Conversation} conversation */
function rescue(conversation) {
  const lost = Object.entries(changes(conversation)).filter(([id]) => !conversation.line.find(id));
  if (lost.length === 0) return;
  const texts = lost.map(([, text]) => text);
  // The field takes it with the next frame: until then it is kept for it.
  addToDraft(conversation.id, texts.join("\n"));
  for (const [id] of lost) keepChange(conversation, id, "");
  conversation.more.value = [conversation.more.value, ...texts].filter(Boolean).join("\n");
  warn("The message is not in the queue any more. What you had changed it into stands in the field below.");
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
    // The run may take the message with this in it, before it is known here that it is saved.
    change("");
    try {
      if (text.trim() && text !== one.text) await conversation.line.edit(one.id, text);
    } catch (error) {
      change(text);
      // Whoever has left the page finds it there when they come back.
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
    }}><textarea ref=${field} name="text" rows="2" aria-label="The message" readonly=${busy} defaultValue=${kept.current || one.text} onInput=${(/** @type {any} */ event) => change(event.target.value.trim() === one.text ? "" : event.target.value)}></textarea>
      <button type="submit" class="primary" disabled=${busy}>Save</button><button type="button" disabled=${busy} onClick=${close}>Cancel</button></form></li>`;
  }
  return html`<li class="row wrap"><span class="fill clip">${one.text}</span>
    ${conversation.isActive.value && PLACES[one.place] && html`<span class="quiet place">${PLACES[one.place]}</span>`}
    ${isWhole(one.blocks) && html`<button ref=${button} type="button" class="plain" onClick=${() => setEditing(true)}>Edit</button>`}
    <button type="button" class="plain" title="Stops the run and sends this" onClick=${() => attempt(() => conversation.line.sendNow(one.id))}>Send now</button>
    <button type="button" class="plain" onClick=${() => attempt(() => conversation.line.withdraw(one.id))}>Remove</button></li>`;
}
