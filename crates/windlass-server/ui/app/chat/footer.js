// Tokens, times and cost of the conversation, and of its current or last reply. (SK-U9)

import { html } from "../lib/html.js";
import { count, length } from "../lib/words.js";

/** @param {{conversation: import("../state/conversation.js").Conversation}} props */
export function Footer({ conversation }) {
  const sum = conversation.sums.value.value;
  const pulse = conversation.pulse.value;
  const now = pulse ?? conversation.last.value;
  const times = [
    now?.ttftMs == null ? "" : `time to first token ${length(now.ttftMs)}`,
    now?.perSecond == null ? "" : `${pulse ? "≈ " : ""}${count(Math.round(now.perSecond))} tokens/s`,
    pulse ? `≈ ${count(pulse.tokens)} tokens so far` : "",
    now?.tookMs == null ? "" : `${pulse ? "for" : "took"} ${length(now.tookMs)}`,
  ];
  return html`<p class="figures" data-live=${Boolean(pulse)}><span>${times.filter(Boolean).join(" · ")}</span> <span>${sum ? words(sum) : ""}</span></p>`;
}

/** Formats the sums. Empty for a conversation without usage. @param {import("../state/figures.js").Sum} sum */
function words({ input, output, cached, costUsd, priced }) {
  if (input + output === 0) return "";
  const ofThem = cached > 0 ? ` (${count(cached)} cached)` : "";
  return [`${count(input)} in${ofThem}`, `${count(output)} out`, `${count(input + output)} total`, `${priced ? "" : "≥ "}$${costUsd.toFixed(4)}`].join(" · ");
}
