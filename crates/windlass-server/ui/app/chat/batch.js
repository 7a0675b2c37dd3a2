// The bar above the composer, with buttons that answer all pending approvals of a conversation together. (SK-U5)

import { html } from "../lib/html.js";
import { Batch } from "../view/batch.js";

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export const BatchBar = ({ conversation }) => html`<${Batch} asks=${conversation.open.value} onAnswered=${() => conversation.ask()} />`;
