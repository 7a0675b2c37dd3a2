// Messages that wait for the run to end: changed, sent now, or taken back. (SK-U6, ZE-P7)

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { attempt } from "../state/notices.js";

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export function Queue({ conversation }) {
  const waiting = conversation.queue.value;
  if (waiting.length === 0) return null;
  const held = !conversation.isActive.value
    ? "Nothing is at work: they stay until you send them, or until your next message is done."
    : conversation.open.value.length > 0
      ? "They go when what is asked is answered."
      : "They go one by one, when the run is done.";
  return html`<section class="queue" aria-label="Messages that wait">
    <p>${waiting.length === 1 ? "1 message waits." : `${waiting.length} messages wait.`} ${held}</p>
    <ol>${waiting.map((one) => html`<${Waits} key=${one.id} one=${one} conversation=${conversation} />`)}</ol>
  </section>`;
}

/** @param {{one: import("../state/conversation.js").Waiting, conversation: import("../state/conversation.js").Conversation}} props */
function Waits({ one, conversation }) {
  const [editing, setEditing] = useState(false);
  /** What it is changed into and is not saved. */
  const changed = useRef("");
  const close = () => {
    changed.current = "";
    setEditing(false);
  };
  useEffect(
    () => () => {
      if (changed.current) conversation.rescue(changed.current);
    },
    [],
  );
  if (editing) {
    return html`<li><form class="row" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      const text = event.target.elements.text.value;
      attempt(async () => {
        if (text.trim() && text !== one.text) await conversation.editQueued(one.id, text);
        close();
      });
    }}><textarea name="text" rows="2" aria-label="The message" defaultValue=${one.text} onInput=${(/** @type {any} */ event) => (changed.current = event.target.value.trim() === one.text ? "" : event.target.value)}></textarea>
      <button type="submit" class="primary">Save</button><button type="button" onClick=${close}>Cancel</button></form></li>`;
  }
  return html`<li class="row"><span class="fill clip">${one.text}</span>
    <button type="button" class="plain" onClick=${() => setEditing(true)}>Edit</button>
    <button type="button" class="plain" title="Stops the run and sends this" onClick=${() => attempt(() => conversation.sendNow(one.id))}>Send now</button>
    <button type="button" class="plain" onClick=${() => attempt(() => conversation.withdraw(one.id))}>Remove</button></li>`;
}
