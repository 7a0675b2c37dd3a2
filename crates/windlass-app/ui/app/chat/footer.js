// Tokens, times and cost: of the conversation as far as it is loaded, and of the answer that grows. (SK-U9)

import { html } from "../lib/html.js";
import { count, length } from "../lib/words.js";

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export function Footer({ conversation }) {
  const sum = conversation.figures.value;
  const pulse = conversation.pulse.value;
  const now = pulse ?? sum.last;
  const times = [
    now?.ttftMs == null ? "" : `first word after ${length(now.ttftMs)}`,
    now?.perSecond == null ? "" : `${pulse ? "≈ " : ""}${count(Math.round(now.perSecond))} tokens/s`,
    pulse ? `≈ ${count(pulse.tokens)} tokens so far` : "",
    now?.tookMs == null ? "" : `${pulse ? "for" : "took"} ${length(now.tookMs)}`,
  ];
  const cached = sum.cached > 0 ? ` (${count(sum.cached)} cached)` : "";
  const loaded = conversation.hasOlder.value ? " (of what is loaded)" : "";
  const sums = sum.replies > 0 ? [`${count(sum.input)} in${cached}`, `${count(sum.output)} out`, `${count(sum.input + sum.output)} in all`, `${sum.priced ? "" : "≥ "}$${(sum.costMicro / 1e6).toFixed(4)}${loaded}`] : [];
  return html`<p class="figures" data-live=${Boolean(pulse)}><span>${times.filter(Boolean).join(" · ")}</span> <span>${sums.join(" · ")}</span></p>`;
}
