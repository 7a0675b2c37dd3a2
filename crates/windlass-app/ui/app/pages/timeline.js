// A run's journal as a timeline: model calls, tools beside each other, waits.

import { get } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { count, full, length, microUsd, size, tidyJson } from "../lib/words.js";
import { wordsOf } from "../state/entry.js";
import { attempt } from "../state/notices.js";

/**
 * @typedef {{kind: "model" | "tool" | "wait", name: string, from: number, until: number, state: string, event: any, more: any}} Span
 * @typedef {{step: number, spans: Span[]}} Step
 */

/** Spans of a run's events, by step. @param {any[]} events @returns {{steps: Step[], from: number, until: number}} */
export function spansOf(events) {
  /** @type {Map<number, Step>} */
  const steps = new Map();
  /** @type {Map<string, Span>} */
  const open = new Map();
  const from = events[0]?.at ?? 0;
  const until = events.at(-1)?.at ?? from;
  let now = 0;
  /** @param {string} key @param {Span["kind"]} kind @param {string} name @param {any} event */
  const begin = (key, kind, name, event) => {
    now = event.step ?? now;
    const step = steps.get(now) ?? { step: now, spans: [] };
    steps.set(now, step);
    /** @type {Span} */
    const span = { kind, name, from: event.at, until, state: "goes on", event, more: null };
    step.spans.push(span);
    open.set(key, span);
  };
  /** @param {string} key @param {string} state @param {any} event */
  const end = (key, state, event) => {
    const span = open.get(key);
    if (span) Object.assign(span, { until: event.at, state, more: event });
    open.delete(key);
  };
  /** @type {Map<string, any>} */
  const calls = new Map();
  for (const event of events) {
    const key = `${event.step}.${event.index}`;
    switch (event.type) {
      case "step.started":
        begin("model", "model", event.model, event);
        break;
      case "step.replied": {
        end("model", "replied", event);
        let index = 0;
        for (const block of event.message.blocks) if (block.kind === "tool_call") calls.set(`${event.step}.${index++}`, block);
        break;
      }
      case "step.failed":
        end("model", "failed", event);
        break;
      case "tool.started":
        begin(`t${key}`, "tool", calls.get(key)?.name ?? "a tool", { ...event, asked: calls.get(key)?.asked });
        break;
      case "tool.finished":
        if (open.has(`t${key}`)) end(`t${key}`, event.error ? "failed" : "done", event);
        else {
          begin(`t${key}`, "tool", calls.get(key)?.name ?? "a tool", { ...event, asked: calls.get(key)?.asked });
          end(`t${key}`, event.outcome ?? "returned", event);
        }
        break;
      case "tool.parked":
      case "tool.deferred":
        end(`t${key}`, event.type === "tool.parked" ? "asks" : "goes on later", event);
        break;
      case "interrupt.opened":
        begin(`i${event.interrupt}`, "wait", Object.keys(event.kind)[0] ?? "a wait", event);
        break;
      case "interrupt.closed":
        end(`i${event.interrupt}`, event.answer?.answer ?? "answered", event);
        break;
    }
  }
  return { steps: [...steps.values()].sort((a, b) => a.step - b.step), from, until };
}

/** @param {{thread: string, events: any[]}} props */
export function Timeline({ thread, events }) {
  const { steps, from, until } = spansOf(events);
  const whole = Math.max(1, until - from);
  return html`<ol class="timeline">${steps.map((step) => html`<li key=${step.step}><h2>Step ${step.step}</h2>
    ${step.spans.map((span, at) => html`<${Bar} key=${at} span=${span} thread=${thread} left=${((span.from - from) / whole) * 100} width=${((span.until - span.from) / whole) * 100} />`)}</li>`)}</ol>`;
}

/** @param {{span: Span, thread: string, left: number, width: number}} props */
function Bar({ span, thread, left, width }) {
  const [prompt, setPrompt] = useState(/** @type {any} */ (null));
  const more = span.more ?? {};
  const load = () => attempt(async () => setPrompt(await get(`/threads/${thread}/steps/${span.event.seq}/prompt`)));
  return html`<details class="span" data-kind=${span.kind}>
    <summary><span class="what">${{ model: "Model", tool: "Tool", wait: "Wait" }[span.kind]}</span><strong>${span.name}</strong>
      <span class="track" aria-hidden="true"><span style=${{ left: `${Math.min(left, 99.5)}%`, width: `${Math.max(0.5, width)}%` }}></span></span>
      <span class="quiet">${span.state}, ${length(span.until - span.from)}</span></summary>
    <p class="quiet">${full(span.from)} – ${full(span.until)}</p>
    ${span.kind === "model" && html`
      ${more.usage && html`<p>${count(more.usage.input)} tokens in${more.usage.cached ? `, ${count(more.usage.cached)} of them from the cache` : ""}; ${count(more.usage.output)} out; ${microUsd(more.cost)}; first word after ${length(more.ttft_ms)}.</p>`}
      ${more.message && typeof more.message === "string" && html`<p class="note" data-tone="warning">${more.message}</p>`}
      ${more.message?.blocks?.filter((/** @type {any} */ block) => block.kind === "text").map((/** @type {any} */ block) => html`<pre tabindex="0">${wordsOf(block.text)}</pre>`)}
      ${prompt ? html`<${Prompt} prompt=${prompt} />` : html`<button type="button" onClick=${load}>Show the prompt</button>`}`}
    ${span.kind === "tool" && html`<h3>Arguments</h3><pre tabindex="0">${tidyJson(wordsOf(span.event.asked))}</pre>
      ${more.content && html`<h3>Result</h3><pre tabindex="0">${more.content.map((/** @type {any} */ block) => wordsOf(block.text)).join("\n")}</pre>`}`}
    ${span.kind === "wait" && html`<pre tabindex="0">${JSON.stringify(span.event.kind, null, 2)}</pre>${more.by && html`<p>${more.by}: ${JSON.stringify(more.answer)}</p>`}`}
  </details>`;
}

/** What a model was shown, part by part. @param {{prompt: any}} props */
function Prompt({ prompt }) {
  const whole = Math.max(1, prompt.tokens);
  return html`<div class="prompt"><p>${count(prompt.tokens)} tokens, estimated${prompt.replied && prompt.replied !== prompt.digest ? "; it is not what was sent" : ""}.</p>
    ${prompt.parts.map((/** @type {any} */ part, /** @type {number} */ at) => html`<details key=${at}><summary><span class="what">${part.kind}${part.role ? ` · ${part.role}` : ""}</span>
      <span class="track" aria-hidden="true"><span style=${{ left: "0", width: `${(part.tokens / whole) * 100}%` }}></span></span><span class="quiet">${count(part.tokens)} tokens, ${size(part.size_bytes)}</span></summary>
      <pre tabindex="0">${part.blocks.map(blockText).join("\n")}${part.cut ? "\n[cut]" : ""}</pre></details>`)}</div>`;
}

/** @param {any} block */
function blockText(block) {
  if (block.kind === "text" || block.kind === "reasoning") return wordsOf(block.text);
  if (block.kind === "tool_result") return block.content.map(blockText).join("\n");
  return JSON.stringify(block, null, 2);
}
