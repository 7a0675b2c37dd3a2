// Two runs beside each other: a fork and its parent, or the same task twice.

import { all, get, query } from "../lib/api.js";
import { html, useEffect } from "../lib/html.js";
import { go, place } from "../lib/route.js";
import { count, length } from "../lib/words.js";
import { Missing, useLoaded } from "../view/loaded.js";
import { readRun } from "./runs.js";
import { spansOf } from "./timeline.js";

/** The page. */
export function Page() {
  const asked = place.value.query;
  const fork = asked.get("fork");
  const [a, b] = [asked.get("a"), asked.get("b")];
  return a && b ? html`<${Two} key=${`${a} ${b}`} a=${a} b=${b} fork=${fork !== null} />` : fork ? html`<${Forked} key=${fork} fork=${fork} />` : html`<div class="page"><h1>Compare two runs</h1><div class="empty"><p>Choose two runs in the <a href="/runs">list of runs</a>.</p></div></div>`;
}

/** Finds the first runs of a fork and of its parent behind the place where they part. @param {{fork: string}} props */
function Forked({ fork }) {
  const read = useLoaded((stop) => parted(fork, stop), [fork]);
  const found = read.value;
  useEffect(() => {
    if (found?.a && found.b) go(`/compare${query({ a: found.a, b: found.b, fork })}`, { replace: true });
  }, [found]);
  if (!found || (found.a && found.b)) return html`<div class="page"><${Missing} of=${read} /></div>`;
  const why = !found.origin ? "This conversation is no fork." : !found.b ? "The fork has not gone on yet: send a message in it first." : "Its parent has not gone on behind the place where they part, so that there is nothing to compare with.";
  return html`<div class="page"><h1>Compare with the parent</h1><div class="empty"><p>${why}</p>
    <p><a class="button" href=${`/chat/${fork}`}>The fork</a> ${found.origin && html`<a class="button" href=${`/chat/${found.origin.thread}`}>The parent</a>`}</p></div></div>`;
}

/** @param {string} fork @param {AbortSignal} stop */
async function parted(fork, stop) {
  const { forked_from: origin } = await get(`/threads/${fork}`, { stop });
  if (!origin) return { origin };
  const [theirs, own] = await Promise.all([origin.thread, fork].map((thread) => all(`/runs${query({ thread })}`, { stop })));
  const known = new Set(theirs.data.map((run) => run.id));
  // Newest first; what stands before the place is the same in both.
  return { origin, a: theirs.data.findLast((run) => run.from > origin.until)?.id, b: own.data.findLast((run) => !known.has(run.id))?.id };
}

/** @param {{a: string, b: string, fork: boolean}} props */
function Two({ a, b, fork }) {
  const read = useLoaded((stop) => Promise.all([readRun(a, stop), readRun(b, stop)]), [a, b]);
  /** @type {any[] | null} */
  const both = read.value;
  if (!both) return html`<div class="page"><${Missing} of=${read} /></div>`;
  const rows = both.map((run) => spansOf(run.events).steps);
  const figures = both.map(({ outcome: { status, meta } }) => [status, meta.model, meta.turns, meta.toolCalls, `${count(meta.tokensUsed?.input)} / ${count(meta.tokensUsed?.output)}`, meta.costUsd == null ? "–" : `$${meta.costUsd.toFixed(4)}`, length(meta.durationMs)]);
  const names = ["Ended", "Model", "Steps", "Calls", "Tokens in / out", "Cost", "Took"];
  const steps = Math.max(rows[0].length, rows[1].length);
  return html`<div class="page wide"><h1>${fork ? "A fork and its parent" : "Two runs"}</h1>
    <div class="table" tabindex="0"><table class="list compare"><thead><tr><td></td><th>${fork && "The parent: "}<a href=${`/runs/${a}`}><code>${a.slice(4)}</code></a></th><th>${fork && "The fork: "}<a href=${`/runs/${b}`}><code>${b.slice(4)}</code></a></th></tr></thead>
      <tbody>${names.map((name, at) => html`<tr data-differs=${figures[0][at] !== figures[1][at]}><th>${name}</th><td>${figures[0][at]}</td><td>${figures[1][at]}</td></tr>`)}
      ${Array.from({ length: steps }, (_, at) => {
        const [one, other] = rows.map((all) => told(all[at]));
        return html`<tr data-differs=${one.join() !== other.join()}><th>Step ${at + 1}</th><td>${one.map((line) => html`<div>${line}</div>`)}</td><td>${other.map((line) => html`<div>${line}</div>`)}</td></tr>`;
      })}</tbody></table></div>
    <p class="quiet">Rows that differ are marked.</p></div>`;
}

/** @param {import("./timeline.js").Step | undefined} step */
const told = (step) => (step?.spans ?? []).map((span) => `${span.name}: ${span.state}${span.event.asked ? ` ${String(span.event.asked).slice(0, 120)}` : ""}`);
