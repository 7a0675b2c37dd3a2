// Two runs side by side: a fork and its parent, or the same task twice.

import { all, get, query } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { go, place } from "../lib/route.js";
import { count, length, tidyJson } from "../lib/words.js";
import { textOf, wordsOf } from "../state/entry.js";
import { nameOf, usePeople } from "../state/people.js";
import { Changes } from "../view/changes.js";
import { Missing, useLoaded } from "../view/loaded.js";
import { readRun } from "./run/events.js";
import { spansOf } from "./run/spans.js";
import { contentText } from "./timeline.js";

/** Number of characters of a text that are initially shown. */
const SHOWN = 240;

export function Page() {
  const asked = place.value.query;
  const fork = asked.get("fork");
  const [a, b] = [asked.get("a"), asked.get("b")];
  return a && b ? html`<${Two} key=${`${a} ${b}`} a=${a} b=${b} fork=${fork !== null} />` : fork ? html`<${Forked} key=${fork} fork=${fork} />` : html`<div class="page"><h1>Compare two runs</h1><div class="empty"><p>Select two runs in the <a href="/runs">list of runs</a>.</p></div></div>`;
}

/** Finds the first run of a fork and of its parent after the fork position. @param {{fork: string}} props */
function Forked({ fork }) {
  const read = useLoaded((stop) => parted(fork, stop), [fork]);
  const found = read.value;
  useEffect(() => {
    if (found?.a && found.b) go(`/compare${query({ a: found.a, b: found.b, fork })}`, { replace: true });
  }, [found]);
  if (!found || (found.a && found.b)) return html`<div class="page"><${Missing} of=${read} /></div>`;
  const why = found.isGone ? "The parent conversation was deleted." : !found.origin ? "This conversation is not a fork." : !found.b ? "The fork has no new runs yet. Send a message in it first." : "The parent has no runs after the fork, so there is nothing to compare.";
  return html`<div class="page"><h1>Compare with parent</h1><div class="empty"><p>${why}</p>
    <p><a class="button" href=${`/chat/${fork}`}>Open fork</a> ${found.origin && !found.isGone && html`<a class="button" href=${`/chat/${found.origin.thread}`}>Open parent</a>`}</p></div></div>`;
}

/** @param {string} fork @param {AbortSignal} stop */
async function parted(fork, stop) {
  const { forked_from: origin } = await get(`/threads/${fork}`, { stop });
  if (!origin) return { origin };
  /** @param {string} thread */
  const runs = (thread) => all(`/runs${query({ thread })}`, { stop });
  const [theirs, own] = await Promise.all([runs(origin.thread).catch(gone), runs(fork)]);
  if (!theirs) return { origin, isGone: true };
  const known = new Set(theirs.data.map((run) => run.id));
  // The lists are sorted newest first; both threads share the runs before the fork position.
  return { origin, a: theirs.data.findLast((run) => run.from > origin.until)?.id, b: own.data.findLast((run) => !known.has(run.id))?.id };
}

/** Returns null if the parent was deleted. @param {any} error */
function gone(error) {
  if (error.status === 404) return null;
  throw error;
}

/** @param {{a: string, b: string, fork: boolean}} props */
function Two({ a, b, fork }) {
  usePeople();
  const read = useLoaded((stop) => Promise.all([readRun(a, stop), readRun(b, stop)]), [a, b]);
  /** @type {any[] | null} */
  const both = read.value;
  if (!both) return html`<div class="page"><${Missing} of=${read} /></div>`;
  const rows = both.map((run) => spansOf(run.events).steps);
  const figures = both.map(({ outcome: { status, meta } }) => [status, meta.model, meta.turns, meta.toolCalls, `${count(meta.tokensUsed?.input)} / ${count(meta.tokensUsed?.output)}`, meta.costUsd == null ? "–" : `$${meta.costUsd.toFixed(4)}`, length(meta.durationMs)]);
  const names = ["Status", "Model", "Steps", "Tool calls", "Tokens in / out", "Cost", "Duration"];
  const steps = Math.max(rows[0].length, rows[1].length);
  const ends = both.map(({ outcome }) => outcome.meta.output ?? outcome.data ?? "");
  return html`<div class="page wide"><h1>${fork ? "Fork and parent" : "Compare runs"}</h1>
    <div class="table" tabindex="0"><table class="list compare"><thead><tr><td></td><th>${fork && "Parent: "}<a href=${`/runs/${a}`}><code>${a.slice(4)}</code></a></th><th>${fork && "Fork: "}<a href=${`/runs/${b}`}><code>${b.slice(4)}</code></a></th></tr></thead>
      <tbody>${names.map((name, at) => html`<tr data-differs=${figures[0][at] !== figures[1][at]}><th>${name}</th><td>${figures[0][at]}</td><td>${figures[1][at]}</td></tr>`)}
      ${Array.from({ length: steps }, (_, at) => {
        const [one, other] = rows.map((all) => told(all[at]));
        return html`<tr key=${at} data-differs=${JSON.stringify(one) !== JSON.stringify(other)}><th>Step ${at + 1}</th><td><${Step} parts=${one} /></td><td><${Step} parts=${other} /></td></tr>`;
      })}</tbody></table></div>
    <p class="quiet">Different rows are highlighted.</p>
    <h2>Final answers</h2><${Ends} ends=${ends} names=${fork ? ["the parent", "the fork"] : ["the first run", "the second run"]} /></div>`;
}

/** @typedef {{name: string, text: string}} Part the label of a span, and its text */

/**
 * Returns the spans of a step, with the model's text, the arguments that were sent, and the results.
 * @param {import("./run/spans.js").Step | undefined} step @returns {Part[]}
 */
function told(step) {
  return (step?.spans ?? []).flatMap((span) => {
    const { name, state, more, call } = span;
    const head = { name: span.kind === "mark" ? `${name}${state && ` (${state})`}` : `${name}: ${state}`, text: "" };
    if (span.kind === "model") return [{ ...head, text: Array.isArray(more?.message?.blocks) ? textOf(more.message.blocks) : (more?.message ?? "") }];
    if (span.kind !== "tool" || !call) return [head];
    const changed = { "": "", repaired: ", repaired", edited: `, edited by ${nameOf(call.by)}` }[call.changed];
    const result = more?.content ? [{ name: "Result", text: contentText(more.content) }] : [];
    return [{ name: `${head.name}${changed}`, text: tidyJson(wordsOf(call.args)) }, ...result];
  });
}

/** @param {{parts: Part[]}} props */
const Step = ({ parts }) => html`${parts.map((part, at) => html`<div class="told" key=${at}><span>${part.name}</span>${part.text && html`<${Text} text=${part.text} />`}</div>`)}`;

/** Shows a text, shortened until the user expands it. @param {{text: string}} props */
function Text({ text }) {
  const [whole, setWhole] = useState(false);
  const isLong = text.length > SHOWN;
  return html`<pre tabindex="0">${whole || !isLong ? text : `${text.slice(0, SHOWN)}…`}</pre>
    ${isLong && html`<button type="button" class="plain" aria-expanded=${whole} onClick=${() => setWhole(!whole)}>${whole ? "Show less" : `Show all ${count(text.length)} characters`}</button>`}`;
}

/** Shows the final answers, line by line. @param {{ends: string[], names: string[]}} props */
function Ends({ ends: [one, other], names }) {
  if (one === "" && other === "") return html`<p class="empty">Neither run has a final answer.</p>`;
  // Ignore a final line break, which is not a line.
  if (one.trimEnd() === other.trimEnd()) return html`<p>Both answers are identical:</p><pre tabindex="0">${one}</pre>`;
  return html`<p class="quiet">- only in ${names[0]}, + only in ${names[1]}; other lines are in both.</p>
    <${Changes} before=${one} after=${other} label="Differences of the final answers" />`;
}
