// What a conversation waits for, at its end. The first one hears the keys.

import { html } from "../lib/html.js";
import { Ask } from "../view/ask.js";

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export function Interrupts({ conversation }) {
  const open = conversation.open.value;
  return html`<div class="asks">${open.map((one, at) => html`<${Ask} key=${one.id} open=${one} isFirst=${at === 0} onAnswered=${() => conversation.ask()} />`)}</div>`;
}
