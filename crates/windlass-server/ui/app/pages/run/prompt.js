// The prompt of a step, part by part in sending order, with the fraction of each part that came from the provider's
// cache.

import { get } from "../../lib/api.js";
import { html, useState } from "../../lib/html.js";
import { count, size } from "../../lib/words.js";
import { wordsOf } from "../../state/entry.js";
import { attempt } from "../../state/notices.js";

/** @type {Record<string, string>} */
const KINDS = { instructions: "instructions", tools: "tools", history: "history", tail: "this step" };
const CACHED = { all: "cached (estimate)", some: "partly cached (estimate)", none: "" };

/** @param {{thread: string, seq: number, usage: any}} props `usage`: of the reply, if there is one */
export function Prompt({ thread, seq, usage }) {
  const [prompt, setPrompt] = useState(/** @type {any} */ (null));
  const load = () => attempt(async () => setPrompt(await get(`/threads/${thread}/steps/${seq}/prompt`)));
  if (!prompt) return html`<button type="button" onClick=${load}>Show prompt</button>`;
  const whole = Math.max(1, prompt.tokens);
  return html`<div class="prompt"><p>${count(prompt.tokens)} tokens, estimated${prompt.replied && prompt.replied !== prompt.digest ? "; it differs from the prompt that was sent" : ""}.
      ${usage?.cached > 0 && ` The provider read ${count(usage.cached)} of ${count(usage.input)} tokens from its cache. A cache keeps the start of a prompt, so these are approximately the marked parts.`}</p>
    ${partsOf(prompt, usage).map(({ part, cached, share }, at) => html`<details key=${at} data-cached=${cached}><summary><span class="what">${KINDS[part.kind] ?? part.kind}${part.role ? ` · ${part.role}` : ""}</span>
      <span class="track" aria-hidden="true"><span style=${{ left: "0", width: `${(part.tokens / whole) * 100}%` }}></span><span class="cached" style=${{ left: "0", width: `${((part.tokens * share) / whole) * 100}%` }}></span></span>
      ${usage?.cached > 0 && html`<span class="had">${cached !== "none" && html`<span class="tag" data-tone="good">${CACHED[cached]}</span>`}</span>`}<span class="quiet">${count(part.tokens)} tokens, ${size(part.size_bytes)}</span></summary>
      <pre tabindex="0">${part.blocks.map(blockText).join("\n")}${part.cut ? "\n[truncated]" : ""}</pre></details>`)}</div>`;
}

/**
 * Estimates the cached share of each part: the reported share of cached tokens, applied to the estimated token counts.
 * @param {any} prompt @param {any} usage @returns {{part: any, cached: "all" | "some" | "none", share: number}[]}
 */
export function partsOf(prompt, usage) {
  let left = usage?.cached > 0 && usage.input > 0 ? (prompt.tokens * Math.min(usage.cached, usage.input)) / usage.input : 0;
  return prompt.parts.map((/** @type {any} */ part) => {
    const share = left <= 0 ? 0 : Math.min(1, left / Math.max(1, part.tokens));
    left -= part.tokens;
    return { part, share, cached: share === 0 ? "none" : share === 1 ? "all" : "some" };
  });
}

/** @param {any} block @returns {string} */
function blockText(block) {
  if (block.kind === "text" || block.kind === "reasoning") return wordsOf(block.text);
  if (block.kind === "tool_result") return block.content.map(blockText).join("\n");
  return JSON.stringify(block, null, 2);
}
