// Two runs beside each other: a fork and its parent, or the same task twice.

import { html } from "../lib/html.js";
import { place } from "../lib/route.js";
import { count, length } from "../lib/words.js";
import { Missing, useLoaded } from "../view/loaded.js";
import { readRun } from "./runs.js";
import { spansOf } from "./timeline.js";

/** The page. */
export function Page() {
  const [a, b] = [place.value.query.get("a"), place.value.query.get("b")];
  const read = useLoaded(async () => a && b && Promise.all([readRun(a), readRun(b)]), [a, b]);
  /** @type {any[] | null} */
  const both = read.value;
  if (!a || !b) return html`<div class="page"><h1>Compare two runs</h1><div class="empty"><p>Choose two runs in the <a href="/runs">list of runs</a>.</p></div></div>`;
  if (!both) return html`<div class="page"><${Missing} of=${read} /></div>`;
  const rows = both.map((run) => spansOf(run.events).steps);
  const figures = both.map(({ outcome: { status, meta } }) => [status, meta.model, meta.turns, meta.toolCalls, `${count(meta.tokensUsed?.input)} / ${count(meta.tokensUsed?.output)}`, meta.costUsd == null ? "–" : `$${meta.costUsd.toFixed(4)}`, length(meta.durationMs)]);
  const names = ["Ended", "Model", "Steps", "Calls", "Tokens in / out", "Cost", "Took"];
  const steps = Math.max(rows[0].length, rows[1].length);
  return html`<div class="page wide"><h1>Two runs</h1>
    <div class="table" tabindex="0"><table class="list compare"><thead><tr><th></th><th><a href=${`/runs/${a}`}><code>${a.slice(4)}</code></a></th><th><a href=${`/runs/${b}`}><code>${b.slice(4)}</code></a></th></tr></thead>
      <tbody>${names.map((name, at) => html`<tr data-differs=${figures[0][at] !== figures[1][at]}><th>${name}</th><td>${figures[0][at]}</td><td>${figures[1][at]}</td></tr>`)}
      ${Array.from({ length: steps }, (_, at) => {
        const [one, other] = rows.map((all) => told(all[at]));
        return html`<tr data-differs=${one.join() !== other.join()}><th>Step ${at + 1}</th><td>${one.map((line) => html`<div>${line}</div>`)}</td><td>${other.map((line) => html`<div>${line}</div>`)}</td></tr>`;
      })}</tbody></table></div>
    <p class="quiet">Rows that differ are marked.</p></div>`;
}

/** @param {import("./timeline.js").Step | undefined} step */
const told = (step) => (step?.spans ?? []).map((span) => `${span.name}: ${span.state}${span.event.asked ? ` ${String(span.event.asked).slice(0, 120)}` : ""}`);
