// Messages that wait until the agent can be told: changed, sent now, or taken back. (SK-U6, ZE-P7)

import { html, useEffect, useRef } from "../lib/html.js";
import { draftOf, keepDraft } from "../state/drafts.js";
import { attempt, warn } from "../state/notices.js";
import { useEditing } from "./editing.js";

/** When a message goes, by its place. @type {Record<string, string>} */
const PLACES = {
  after_step: "goes in after the current step",
  after_run: "goes when the run is done",
  after_cancel: "goes as soon as the run has stopped",
};

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export function Queue({ conversation }) {
  const waiting = conversation.queue.value;
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

/** Takes what a message was being changed into when it left the queue into the field for messages. @param {import("../state/conversation.js").Conversation} conversation @param {string} text */
function rescue(conversation, text) {
  keepDraft(conversation.id, [draftOf(conversation.id).text, text].filter(Boolean).join("\n"));
  conversation.more.value = [conversation.more.value, text].filter(Boolean).join("\n");
  if (!conversation.stop.signal.aborted) warn("The message is not in the queue any more. What you had changed it into stands in the field below.");
}

/** @param {{one: import("../state/line.js").Waiting, conversation: import("../state/conversation.js").Conversation}} props */
function Waits({ one, conversation }) {
  /** Under which it is kept what it is changed into, until it is saved. */
  const name = `${conversation.id}.${one.id}`;
  const kept = useRef(/** @type {string | null} */ (null));
  kept.current ??= draftOf(name).text;
  const { editing, setEditing, button, field } = useEditing(kept.current !== "");
  /** What it is changed into and is not saved. */
  const changed = useRef(kept.current);
  const isHere = useRef(true);
  /** @param {string} text */
  const change = (text) => {
    changed.current = text;
    keepDraft(name, text);
  };
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
      if (isHere.current || conversation.line.find(one.id)) change(text);
      else rescue(conversation, text);
      throw error;
    }
    close();
  };
  useEffect(
    () => () => {
      isHere.current = false;
      // Where it waits still, the page was left, and it is changed on when somebody comes back.
      if (!changed.current || conversation.line.find(one.id)) return;
      keepDraft(name, "");
      rescue(conversation, changed.current);
    },
    [],
  );
  if (editing) {
    return html`<li><form class="row" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      const text = event.target.elements.text.value;
      attempt(() => save(text));
    }}><textarea ref=${field} name="text" rows="2" aria-label="The message" defaultValue=${kept.current || one.text} onInput=${(/** @type {any} */ event) => change(event.target.value.trim() === one.text ? "" : event.target.value)}></textarea>
      <button type="submit" class="primary">Save</button><button type="button" onClick=${close}>Cancel</button></form></li>`;
  }
  return html`<li class="row wrap"><span class="fill clip">${one.text}</span>
    ${conversation.isActive.value && PLACES[one.place] && html`<span class="quiet place">${PLACES[one.place]}</span>`}
    <button ref=${button} type="button" class="plain" onClick=${() => setEditing(true)}>Edit</button>
    <button type="button" class="plain" title="Stops the run and sends this" onClick=${() => attempt(() => conversation.line.sendNow(one.id))}>Send now</button>
    <button type="button" class="plain" onClick=${() => attempt(() => conversation.line.withdraw(one.id))}>Remove</button></li>`;
}
