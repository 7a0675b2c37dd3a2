// The verdicts of the gate and the answers of users in a run, with the time that each answer took.

import { visible } from "../../lib/exact.js";
import { because } from "../../lib/gate.js";
import { html } from "../../lib/html.js";
import { limitAmount } from "../../lib/limits.js";
import { full, length, tidyJson } from "../../lib/words.js";
import { wordsOf } from "../../state/entry.js";
import { nameOf } from "../../state/people.js";
import { Arguments } from "../../view/arguments.js";
import { Diff, isDiff } from "../../view/diff.js";
import { askedOf } from "./spans.js";

/** @type {Record<string, string>} */
const VERDICTS = { allow: "Allowed.", ask: "Approval required.", deny: "Denied." };

/** The verdicts and answers of a call, in order. @param {{call: import("./spans.js").Call}} props */
export const Decided = ({ call }) => html`<h3>Decisions</h3>
  ${call.decided.length === 0 ? html`<p class="quiet">No decision is recorded.</p>` : html`<ul class="plain-list decided">${call.decided.map((event, at) => html`<li key=${at}>${decision(event)}</li>`)}</ul>`}`;

/** @param {any} event */
function decision(event) {
  if (event.type === "call.judged") return `${VERDICTS[event.verdict] ?? event.verdict} ${because(event.rule)}`;
  if (event.type === "grant.used") return `Used one call of grant ${event.grant}.`;
  return said(event, event.opened);
}

/**
 * Shows an answer, its user, and the time that the answer took.
 * @param {any} event @param {any} opened the `interrupt.opened`
 */
function said(event, opened) {
  const after = length(event.at - opened.at);
  if (event.type === "interrupt.voted") return `${nameOf(event.by)} approved after ${after}; another approval was required.`;
  if (event.answer.answer === "withdrawn") return `Withdrawn after ${after}: an answer was no longer needed.`;
  return `${nameOf(event.by)} ${answer(event.answer, askedOf(opened.kind))} after ${after}${event.answer.reason ? `: ${event.answer.reason}` : ""}.`;
}

/** @param {any} answer @param {any} asked @returns {string} */
function answer(answer, asked) {
  switch (answer.answer) {
    case "approve":
      return "approved";
    case "edit":
      return "edited the arguments";
    case "deny":
      return asked.kind === "approval" || asked.kind === "hook" ? "denied" : "declined";
    case "reply":
      return answer.selected === undefined ? "answered" : `chose “${answer.selected}”`;
    case "done":
      return "marked the call as done";
    case "retry":
      return asked.kind === "limit" ? "retried" : "retried the call";
    case "fail":
      return "marked the call as failed";
    case "raise":
      return `raised the limit to ${limitAmount(asked.limit, answer.to)}`;
    case "stop":
      return "stopped the run";
    default:
      return answer.answer;
  }
}

/** Shows a wait: the request and its answer. @param {{span: import("./spans.js").Span}} props */
export function Waited({ span }) {
  const asked = askedOf(span.event.kind);
  const { question, limit } = asked;
  const closed = span.more?.type === "interrupt.closed" ? span.more : null;
  const preview = typeof asked.preview === "string" ? visible(asked.preview) : "";
  return html`<h3>Request</h3><p>${span.name}</p>
    ${(asked.reason || asked.message || question?.checkpoint) && html`<p class="quiet">${asked.reason || asked.message || question.checkpoint}</p>`}
    ${asked.url && html`<p class="quiet address">${asked.url}</p>`}
    ${limit && html`<p>Used: ${limitAmount(limit, limit.used)} of ${limitAmount(limit, limit.figure)}.</p>`}
    ${question?.params && html`<${Arguments} text=${JSON.stringify(question.params)} />`}
    ${question?.options?.length > 0 && html`<p class="quiet">Options: ${question.options.join(", ")}</p>`}
    ${span.call && !preview && (asked.kind === "approval" || asked.kind === "hook" || asked.kind === "in_doubt") && html`<${Arguments} text=${tidyJson(wordsOf(span.call.args))} />`}
    ${preview && (isDiff(preview) ? html`<${Diff} text=${preview} />` : html`<pre tabindex="0">${preview}</pre>`)}
    <h3>Answer</h3>
    ${closed
      ? html`<p>${said(closed, span.event)}</p>
          ${[closed.answer.text, closed.answer.result].filter(Boolean).map((text) => html`<pre tabindex="0">${visible(text)}</pre>`)}
          ${closed.answer.values && html`<${Arguments} text=${JSON.stringify(closed.answer.values)} />`}`
      : html`<p>${span.more ? "The run ended before an answer." : `Waiting for an answer since ${full(span.from)}.`}</p>`}`;
}
