// What people and the gate said in a run: what was asked, who answered what, and after how long.

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
const VERDICTS = { allow: "The gate let it run.", ask: "The gate wanted somebody's word.", deny: "The gate denied it." };

/** What decided about a call, in order. @param {{call: import("./spans.js").Call}} props */
export const Decided = ({ call }) => html`<h3>What decided</h3>
  ${call.decided.length === 0 ? html`<p class="quiet">Nothing is known of it.</p>` : html`<ul class="plain-list decided">${call.decided.map((event, at) => html`<li key=${at}>${decision(event)}</li>`)}</ul>`}`;

/** @param {any} event */
function decision(event) {
  if (event.type === "call.judged") return `${VERDICTS[event.verdict] ?? event.verdict} ${because(event.rule)}`;
  if (event.type === "grant.used") return `One use of the grant ${event.grant} is spent.`;
  return said(event, event.opened);
}

/** Who answered what, after how long. @param {any} event @param {any} opened the event that asked */
function said(event, opened) {
  const after = length(event.at - opened.at);
  if (event.type === "interrupt.voted") return `${nameOf(event.by)} said yes after ${after}; another word was needed.`;
  if (event.answer.answer === "withdrawn") return `It was taken back after ${after}: no answer was needed any more.`;
  return `${nameOf(event.by)} ${answer(event.answer, askedOf(opened.kind))} after ${after}${event.answer.reason ? `: ${event.answer.reason}` : ""}.`;
}

/** @param {any} answer @param {any} asked @returns {string} */
function answer(answer, asked) {
  switch (answer.answer) {
    case "approve":
      return "approved it";
    case "edit":
      return "changed its arguments";
    case "deny":
      return asked.kind === "approval" || asked.kind === "hook" ? "denied it" : "declined";
    case "reply":
      return answer.selected === undefined ? "answered" : `chose “${answer.selected}”`;
    case "done":
      return "said that it was done";
    case "retry":
      return asked.kind === "limit" ? "said to try again" : "said that it was not done, and is to be done again";
    case "fail":
      return "said that it failed";
    case "raise":
      return `raised it to ${limitAmount(asked.limit, answer.to)}`;
    case "stop":
      return "stopped the run";
    default:
      return answer.answer;
  }
}

/** A wait: what was asked, and what came of it. @param {{span: import("./spans.js").Span}} props */
export function Waited({ span }) {
  const asked = askedOf(span.event.kind);
  const { question, limit } = asked;
  const closed = span.more?.type === "interrupt.closed" ? span.more : null;
  const preview = typeof asked.preview === "string" ? visible(asked.preview) : "";
  return html`<h3>What was asked</h3><p>${span.name}</p>
    ${(asked.reason || asked.message || question?.checkpoint) && html`<p class="quiet">${asked.reason || asked.message || question.checkpoint}</p>`}
    ${asked.url && html`<p class="quiet address">${asked.url}</p>`}
    ${limit && html`<p>${limitAmount(limit, limit.used)} of ${limitAmount(limit, limit.figure)} were used.</p>`}
    ${question?.params && html`<${Arguments} text=${JSON.stringify(question.params)} />`}
    ${question?.options?.length > 0 && html`<p class="quiet">To choose from: ${question.options.join(", ")}</p>`}
    ${span.call && !preview && (asked.kind === "approval" || asked.kind === "hook" || asked.kind === "in_doubt") && html`<${Arguments} text=${tidyJson(wordsOf(span.call.args))} />`}
    ${preview && (isDiff(preview) ? html`<${Diff} text=${preview} />` : html`<pre tabindex="0">${preview}</pre>`)}
    <h3>The answer</h3>
    ${closed
      ? html`<p>${said(closed, span.event)}</p>
          ${[closed.answer.text, closed.answer.result].filter(Boolean).map((text) => html`<pre tabindex="0">${visible(text)}</pre>`)}
          ${closed.answer.values && html`<${Arguments} text=${JSON.stringify(closed.answer.values)} />`}`
      : html`<p>${span.more ? "The run ended before anybody answered." : `Nobody has answered since ${full(span.from)}.`}</p>`}`;
}
