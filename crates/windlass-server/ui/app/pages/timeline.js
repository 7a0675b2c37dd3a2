// A run's journal as a timeline: model calls, parallel tool calls, waits.

import { html } from "../lib/html.js";
import { count, full, length, microUsd, short, tidyJson } from "../lib/words.js";
import { wordsOf } from "../state/entry.js";
import { nameOf, usePeople } from "../state/people.js";
import { Prompt } from "./run/prompt.js";
import { spansOf } from "./run/spans.js";
import { Decided, Waited } from "./run/told.js";

const KINDS = { model: "Model", tool: "Tool", wait: "Wait", mark: "Event" };

/** @param {{thread: string, events: any[]}} props */
export function Timeline({ thread, events }) {
  usePeople();
  const { steps, from, until } = spansOf(events);
  const whole = Math.max(1, until - from);
  return html`<ol class="timeline">${steps.map((step) => html`<li key=${step.step}><h2>Step ${step.step}</h2>
    ${step.spans.map((span, at) => html`<${Bar} key=${at} span=${span} thread=${thread} left=${((span.from - from) / whole) * 100} width=${((span.until - span.from) / whole) * 100} />`)}</li>`)}</ol>`;
}

/** @param {{span: import("./run/spans.js").Span, thread: string, left: number, width: number}} props */
function Bar({ span, thread, left, width }) {
  const took = span.kind === "mark" ? "" : length(span.until - span.from);
  return html`<details class="span" data-kind=${span.kind}>
    <summary><span class="what">${KINDS[span.kind]}</span><strong title=${span.name}>${span.name}</strong>
      <span class="track" aria-hidden="true"><span style=${{ left: `${Math.min(left, 99.5)}%`, width: `${Math.max(0.5, width)}%` }}></span></span>
      <span class="used">${span.kind === "model" && figures(span.more)}</span><span class="quiet">${[span.state, took].filter(Boolean).join(", ")}</span></summary>
    <p class="quiet">${full(span.from)}${took && ` – ${full(span.until)}`}</p>
    ${span.kind === "model" && html`<${Asked} span=${span} thread=${thread} />`}
    ${span.kind === "tool" && span.call && html`<${Called} span=${span} call=${span.call} />`}
    ${span.kind === "wait" && html`<${Waited} span=${span} />`}
    ${span.kind === "mark" && html`<p>${span.name}${span.state && ` (${span.state})`}.${span.event.by ? ` By ${nameOf(span.event.by)}.` : ""}</p>`}
  </details>`;
}

/** Formats the usage of a reply in short form. @param {any} more */
function figures(more) {
  if (!more?.usage) return "";
  const { input, output, cached } = more.usage;
  return `${short(input)} in${cached ? ` (${short(cached)} cached)` : ""}, ${short(output)} out${more.cost == null ? "" : `, ${microUsd(more.cost)}`}`;
}

/** Shows a model call. @param {{span: import("./run/spans.js").Span, thread: string}} props */
function Asked({ span, thread }) {
  const more = span.more ?? {};
  const texts = (more.message?.blocks ?? []).filter((/** @type {any} */ block) => block.kind === "text");
  return html`${more.usage && html`<p>${count(more.usage.input)} tokens in${more.usage.cached ? `, ${count(more.usage.cached)} of them cached` : ""}; ${count(more.usage.output)} out; ${microUsd(more.cost)}; time to first token ${length(more.ttft_ms)}.</p>`}
    ${more.message && typeof more.message === "string" && html`<p class="note" data-tone="warning">${more.message}</p>`}
    ${texts.map((/** @type {any} */ block) => html`<pre tabindex="0">${wordsOf(block.text)}</pre>`)}
    <${Prompt} thread=${thread} seq=${span.event.seq} usage=${more.usage} />`;
}

/**
 * Shows a tool call: the arguments that were sent, and the model's arguments if they differ.
 * @param {{span: import("./run/spans.js").Span, call: import("./run/spans.js").Call}} props
 */
function Called({ span, call }) {
  const more = span.more ?? {};
  const changed = { "": "", repaired: "repaired", edited: `edited by ${nameOf(call.by)}` }[call.changed];
  return html`<h3>Arguments${changed && html` <span class="tag" data-tone="warn">${changed}</span>`}</h3><pre tabindex="0">${tidyJson(wordsOf(call.args))}</pre>
    ${changed && html`<details class="before"><summary>The model's arguments</summary><pre tabindex="0">${tidyJson(wordsOf(call.asked))}</pre></details>`}
    <${Decided} call=${call} />
    ${more.reason && html`<p class="note" data-tone="warning">${more.reason}</p>`}
    ${more.content && html`<h3>Result</h3><pre tabindex="0">${contentText(more.content)}</pre>`}`;
}

/** @param {any[]} content of a result */
export const contentText = (content) => content.map((block) => (block.kind === "text" ? wordsOf(block.text) : `[${block.kind}${block.name ? `: ${block.name}` : ""}]`)).join("\n");
