// The list of runs, and the details of one run from its journal: steps, prompts, events and cost.

import { get, isAborted, query, signedIn, wait } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { go, place } from "../lib/route.js";
import { follow } from "../lib/stream.js";
import { count, full, length, microUsd, short } from "../lib/words.js";
import { attempt } from "../state/notices.js";
import { isAdmin } from "../state/session.js";
import { Icon } from "../view/icon.js";
import { Missing, useLoaded } from "../view/loaded.js";
import { When } from "../view/ticking.js";
import { isEnd, readEvents, readRun } from "./run/events.js";
import { Timeline } from "./timeline.js";

/** Returns a model's name with a line-break opportunity after the provider. @param {string | null | undefined} name */
const breakable = (name) => name?.replace("/", "/\u200b");

/** The page: the list of runs, or one run. */
export function Page() {
  const [, run] = place.value.parts;
  return run ? html`<${One} key=${run} id=${run} />` : html`<${List} />`;
}

/** The statuses of the filter with their labels. @type {[string, string][]} */
const STANDS = [
  ["active", "running"],
  ["waiting", "needs approval"],
  ["done", "done"],
  ["failed", "failed"],
  ["cancelled", "cancelled"],
];

/** Returns the status of a run for its color, and its label. @param {any} run */
function standing(run) {
  const state = run.status ?? (run.waits ? "waiting" : "active");
  return [state, STANDS.find(([name]) => name === state)?.[1] ?? state];
}

function List() {
  const thread = place.value.query.get("thread");
  const all = place.value.query.get("all") === "true";
  const status = place.value.query.get("status");
  const filter = { thread, all: all || null, status };
  const which = query(filter);
  /** Changes the filter. @param {Record<string, any>} change */
  const look = (change) => go(`/runs${query({ ...filter, ...change })}`);
  const [chosen, setChosen] = useState(/** @type {string[]} */ ([]));
  useEffect(() => setChosen([]), [which]);
  /** @param {string} id */
  const choose = (id) => setChosen((chosen) => (chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen.slice(-1), id]));
  return html`<div class="page wide">
    <header class="row wrap"><h1 class="fill">${thread ? "Runs of this conversation" : "Runs"}</h1>
      ${isAdmin.value && !thread && html`<label class="check"><input type="checkbox" checked=${all} onChange=${() => look({ all: all ? null : true })} /> Runs of all users</label>`}
      <select aria-label="Status" value=${status ?? ""} onChange=${(/** @type {any} */ event) => look({ status: event.target.value })}><option value="">all statuses</option>${STANDS.map(([name, words]) => html`<option value=${name}>${words}</option>`)}</select>
      <button type="button" disabled=${chosen.length !== 2} onClick=${() => go(`/compare${query({ a: chosen[0], b: chosen[1] })}`)}>Compare selected</button></header>
    ${thread && html`<${Origin} thread=${thread} />`}
    <${Rows} key=${which} filter=${filter} chosen=${chosen} choose=${choose} onAll=${() => look({ status: null })} />
  </div>`;
}

/**
 * The runs of one filter. Each filter has a new component instance, so that no state is kept.
 * @typedef {{thread: string | null, all: true | null, status: string | null}} Filter
 * @param {{filter: Filter, chosen: string[], choose: (id: string) => void, onAll: () => void}} props
 */
function Rows({ filter, chosen, choose, onAll }) {
  const { thread, status } = filter;
  const asked = { limit: 50, ...filter };
  const [rest, setRest] = useState(/** @type {{data: any[], next_cursor?: string} | null} */ (null));
  const first = useLoaded((stop) => get(`/runs${query(asked)}`, { stop }));
  /** @type {{data: any[], next_cursor?: string} | null} */
  const page = rest ?? first.value;
  if (!page) return html`<${Missing} of=${first} />`;
  const more = () =>
    attempt(async () => {
      const next = await get(`/runs${query({ ...asked, cursor: page.next_cursor })}`);
      setRest({ ...next, data: [...page.data, ...next.data] });
    });
  return html`
    ${page.data.length === 0 && status
      ? html`<div class="empty"><h2>No runs</h2><p>No runs with this status. <button type="button" class="plain" onClick=${onAll}>Show all</button></p></div>`
      : page.data.length === 0
      ? html`<div class="empty"><h2>No runs yet</h2><p>Each message that you send starts a run. You can inspect its steps, prompts and tool calls here.</p><p><a class="button primary" href="/">New conversation</a></p></div>`
      : html`<div class="table" tabindex="0"><table class="list"><thead><tr><th><span class="hidden">Compare</span></th><th>Run</th><th>Status</th>${!thread && html`<th>Conversation</th>`}<th>Model</th><th>Started</th><th class="number">Duration</th><th class="number">Steps</th><th class="number">Tool calls</th><th class="number">Tokens</th><th class="number">Cost</th></tr></thead>
          <tbody>${page.data.map((run) => html`<tr key=${run.id}>
            <td><input type="checkbox" aria-label=${`Compare ${run.id}`} checked=${chosen.includes(run.id)} onChange=${() => choose(run.id)} /></td>
            <td><a href=${`/runs/${run.id}`}><code>${run.id.slice(4)}</code></a></td><td><${Stand} run=${run} /></td>${!thread && html`<td><a href=${`/chat/${run.thread}`}>${run.thread_title || "Untitled"}</a></td>`}<td>${breakable(run.model)}</td>
            <td><${When} at=${run.started_at} /></td>
            <td class="number">${length(run.finished_at && run.finished_at - run.started_at)}</td><td class="number">${run.steps}</td><td class="number">${run.tool_calls}</td>
            <td class="number">${short((run.input_tokens ?? 0) + (run.output_tokens ?? 0))}</td><td class="number">${microUsd(run.cost_micro_usd)}</td></tr>`)}</tbody></table></div>`}
    ${page.next_cursor && html`<button type="button" onClick=${more}>More</button>`}`;
}

/** @param {{run: any}} props */
function Stand({ run }) {
  const [state, words] = standing(run);
  return html`<span class="state" data-state=${state}>${words}</span>`;
}

/** Delay of a retry after a failed read, in milliseconds. */
const AGAIN_MS = 2000;

/** Loads a run, and follows the run until it ends. @param {string} id */
function useRun(id) {
  const read = useLoaded((stop) => readRun(id, stop), [id]);
  const [later, setLater] = useState(/** @type {Awaited<ReturnType<typeof readRun>> | null} */ (null));
  /** @type {Awaited<ReturnType<typeof readRun>> | null} */
  const first = read.value;
  useEffect(() => {
    if (!first || first.events.some(isEnd)) return undefined;
    const stop = new AbortController();
    const thread = first.outcome.meta.threadId;
    let now = first;
    let line = Promise.resolve();
    const look = async () => {
      const more = await readEvents(thread, id, now.until, stop.signal);
      if (more.events.length === 0) return;
      now = { outcome: await get(`/runs/${id}`, { stop: stop.signal }), events: [...now.events, ...more.events], until: more.until };
      setLater(now);
      if (more.events.some(isEnd)) stop.abort();
    };
    /** Retries until a read succeeds: the stream announces the end of the run only once. */
    const caughtUp = async () => {
      for (;;) {
        try {
          return await look();
        } catch (error) {
          if (isAborted(error) || stop.signal.aborted) return undefined;
          if (/** @type {any} */ (error).status === 404) return stop.abort();
          await (/** @type {any} */ (error).status === 401 ? signedIn(stop.signal) : wait(AGAIN_MS, stop.signal));
        }
      }
    };
    /**
     * Reads the next events after the stream reports a recorded event. Ignores deltas, which are not in the journal.
     * @param {import("../lib/stream.js").Update[]} updates
     */
    const told = (updates) => {
      if (updates.some((update) => update.run === id && !/delta$|snapshot$/.test(update.type))) line = line.then(caughtUp).catch(() => {});
    };
    follow(`/threads/${thread}/stream`, `${first.until}.0`, { told }, stop.signal).catch(() => {});
    return () => stop.abort();
  }, [first]);
  return { read, run: later ?? first };
}

/** @param {{id: string}} props */
function One({ id }) {
  const { read, run } = useRun(id);
  const [view, setView] = useState("steps");
  if (!run) return html`<div class="page"><${Missing} of=${read} /></div>`;
  const { outcome } = run;
  const meta = outcome.meta;
  return html`<div class="page wide">
    <header class="row wrap"><h1 class="fill">Run <code>${id.slice(4)}</code></h1>
      <span class="state" role="status" data-state=${outcome.status}>${outcome.status === "paused" ? "needs approval" : outcome.status}</span><a class="button" href=${`/chat/${meta.threadId}`}>Open conversation</a></header>
    <${Origin} thread=${meta.threadId} />
    <dl class="cards six"><div><dt>Model</dt><dd>${breakable(meta.model)}</dd></div><div><dt>Steps</dt><dd>${meta.turns}</dd></div><div><dt>Tool calls</dt><dd>${meta.toolCalls}</dd></div>
      <div><dt>Tokens</dt><dd>${count(meta.tokensUsed?.input)} in, ${count(meta.tokensUsed?.output)} out</dd></div><div><dt>Cost</dt><dd>${meta.costUsd == null ? "–" : `$${meta.costUsd.toFixed(4)}`}</dd></div><div><dt>Duration</dt><dd>${length(meta.durationMs)}</dd></div></dl>
    ${outcome.errors.map((/** @type {any} */ error) => html`<p class="note" data-tone="error">${error.message} <code>${error.code}</code></p>`)}
    <div class="tabs" role="group" aria-label="View">${[["steps", "Steps"], ["events", `Events (${run.events.length})`]].map(([name, words]) => html`<button type="button" key=${name} aria-pressed=${view === name} onClick=${() => setView(name)}>${words}</button>`)}</div>
    ${view === "steps" ? html`<${Timeline} thread=${meta.threadId} events=${run.events} />` : html`<${Raw} events=${run.events} />`}
  </div>`;
}

/** Shows the parent of a fork, with a link to compare both. @param {{thread: string}} props */
function Origin({ thread }) {
  const read = useLoaded((stop) => get(`/threads/${thread}`, { stop }), [thread]);
  const origin = read.value?.forked_from;
  if (!origin) return null;
  return html`<p class="row wrap"><span class="quiet"><${Icon} name="fork" size=${15} /> This conversation is a fork of <a href=${`/chat/${origin.thread}`}>another conversation</a>.</span>
    <a class="button" href=${`/compare${query({ fork: thread })}`}>Compare with parent</a></p>`;
}

/** @param {{events: any[]}} props */
function Raw({ events }) {
  const [shown, setShown] = useState(200);
  return html`<div class="raw">${events.slice(0, shown).map((event) => html`<details key=${event.seq}><summary><code>${event.seq}</code> <strong>${event.type}</strong> <span class="quiet">${full(event.at)}</span></summary><pre tabindex="0">${JSON.stringify(event, null, 2)}</pre></details>`)}
    ${events.length > shown && html`<button type="button" onClick=${() => setShown(shown + 500)}>${events.length - shown} more</button>`}</div>`;
}
