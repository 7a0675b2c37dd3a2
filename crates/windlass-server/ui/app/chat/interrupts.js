// The list of open interrupts that no card of a call shows, at the end of the conversation.

import { html } from "../lib/html.js";
import { Ask } from "../view/ask.js";

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export function Interrupts({ conversation }) {
  // The page knows which interrupts the cards show only after the messages have loaded.
  const known = conversation.ready.value && conversation.entries.value;
  if (!known) return null;
  const open = conversation.open.value.filter((one) => !conversation.asking.value.has(one.id));
  return html`<div class="asks">${open.map((one) => html`<${Ask} key=${one.id} open=${one} onAnswered=${() => conversation.ask()} />`)}</div>`;
}
