// Usage and cost of runs. (SK-U12)

import { all, get, query } from "../lib/api.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { count, length, money, plural, short, ticks } from "../lib/words.js";
import { usageFrom, usageRange, usageUntil } from "../state/look.js";
import { failed } from "../state/notices.js";
import { isAdmin } from "../state/session.js";
import { Missing, useLoaded } from "../view/loaded.js";

const HOUR = 3600000;
/** @type {[string, number, number][]} name, length and resolution of a range; times in milliseconds */
const RANGES = [
  ["15m", HOUR / 4, 60000],
  ["1h", HOUR, HOUR / 12],
  ["6h", 6 * HOUR, HOUR / 4],
  ["24h", 24 * HOUR, HOUR],
  ["7d", 168 * HOUR, 6 * HOUR],
  ["30d", 720 * HOUR, 24 * HOUR],
];

export function Page() {
  const [user, setUser] = useState("");
  const [people, setPeople] = useState(/** @type {any[]} */ ([]));
  const range = usageRange.value;
  const [begins, ends] = [usageFrom.value, usageUntil.value];
  useEffect(() => {
    if (isAdmin.value) all("/team/members").then((page) => setPeople(page.data), () => {});
  }, []);
  const read = useLoaded(async (stop) => {
    const known = RANGES.find(([name]) => name === range);
    const [, span, part] = known ?? ["", 0, 60000];
    // Intervals start at multiples of their length, because the store has precomputed sums for such intervals.
    const end = Math.ceil(Date.now() / part) * part;
    const from = known ? end - span : utc(begins);
    const until = known ? end : utc(ends);
    if (!(from < until)) return "open";
    const step = known ? part : Math.max(60000, Math.ceil((until - from) / 60 / 60000) * 60000);
    return get(`/usage${query({ from, until, step_ms: step, user })}`, { stop });
  }, [range, begins, ends, user]);
  return html`<div class="page wide">
    <header class="row wrap"><h1 class="fill">Usage</h1>
      ${people.length > 1 && html`<select aria-label="User" value=${user} onChange=${(/** @type {any} */ event) => setUser(event.target.value)}><option value="">all users</option>${people.map((one) => html`<option value=${one.id}>${nameOf(one)}</option>`)}</select>`}
      <div class="tabs" role="group" aria-label="Range">${[...RANGES.map(([name]) => name), "custom"].map((name) => html`<button type="button" aria-pressed=${name === range} onClick=${() => (usageRange.value = name)}>${name}</button>`)}</div></header>
    ${range === "custom" && html`<p class="row wrap"><label>From <input name="from" type="datetime-local" value=${begins} onChange=${(/** @type {any} */ event) => (usageFrom.value = event.target.value)} /></label><label>To <input name="until" type="datetime-local" value=${ends} onChange=${(/** @type {any} */ event) => (usageUntil.value = event.target.value)} /></label><span class="quiet">Times in UTC</span></p>`}
    ${read.value === "open" ? html`<p class="empty">Choose a start and a later end.</p>` : read.value && !read.error ? html`<${Figures} answer=${read.value} people=${people} />` : html`<${Missing} of=${read} />`}
  </div>`;
}

/** @param {any} person */
const nameOf = (person) => person && (person.name || person.email || person.id);

/** Parses the value of a `datetime-local` field as UTC. @param {string} text */
const utc = (text) => Date.parse(`${text}Z`);

/** @param {{answer: any, people: any[]}} props */
function Figures({ answer, people }) {
  const all = answer.totals;
  const tokens = all.prompt_tokens + all.completion_tokens;
  const unsure = all.cost_unknown > 0 ? "≥ " : "";
  const cost = `${unsure}${money(all.cost_usd)}`;
  const decided = all.approvals + all.rejections;
  const cards = [
    ["Conversations", count(all.threads), plural(all.runs, "run")],
    ["Cost", cost, all.cost_unknown > 0 ? `${plural(all.cost_unknown, "run")} without a price` : "at list prices"],
    ["Tokens", short(tokens), `${short(all.cached_tokens)} cached`],
    ["Approval rate", decided > 0 ? `${Math.round((all.approvals / decided) * 100)} %` : "–", `${count(all.approvals)} approved, ${count(all.rejections)} denied`],
    ["Cost per conversation", all.threads > 0 ? `${unsure}${money(all.cost_usd / all.threads)}` : "–", "on average"],
    ["Time to first token", length(all.avg_ttft_ms), "on average"],
  ];
  if (all.runs === 0) return html`<div class="empty"><h2>No runs in this range</h2><p>Choose a longer range, or <a href="/">start a conversation</a>.</p></div>`;
  return html`<dl class="cards six">${cards.map(([name, value, beside]) => html`<div><dt>${name}</dt><dd>${value}<small>${beside}</small></dd></div>`)}</dl>
    <div class="charts">
      <${Chart} title="Tokens" answer=${answer} lines=${[["in", (/** @type {any} */ point) => point.prompt_tokens, short(all.prompt_tokens)], ["out", (/** @type {any} */ point) => point.completion_tokens, short(all.completion_tokens)], ["cached", (/** @type {any} */ point) => point.cached_tokens, short(all.cached_tokens)]]} />
      <${Chart} title="Cost (US dollars)" answer=${answer} lines=${[["cost", (/** @type {any} */ point) => point.cost_usd, cost]]} />
      <${Chart} title="Time to first token (ms)" answer=${answer} lines=${[["ms", (/** @type {any} */ point) => point.avg_ttft_ms ?? null, `${length(all.avg_ttft_ms)} on average`]]} />
      <${Chart} title="Run duration (s)" answer=${answer} lines=${[["s", (/** @type {any} */ point) => (point.avg_duration_ms == null ? null : point.avg_duration_ms / 1000), `${length(all.avg_duration_ms)} on average`]]} />
      <${Gauge} part=${all.cache_hit_rate ?? 0} />
    </div>
    <${Shares} title="By model" rows=${answer.by_model} /><${Shares} title="By agent" rows=${answer.by_agent} />
    ${answer.by_user && html`<${Shares} title="By user" rows=${answer.by_user.map((/** @type {any} */ row) => ({ ...row, name: nameOf(people.find(({ id }) => id === row.name)) ?? row.name }))} />`}`;
}

/** @param {{part: number}} props */
const Gauge = ({ part }) => html`<figure class="chart"><figcaption>Cached prompt tokens</figcaption><div class="gauge"><meter min="0" max="1" value=${part} aria-label="Cache hit rate">${Math.round(part * 100)} %</meter><strong class="number">${Math.round(part * 100)} %</strong></div></figure>`;

/** @param {{title: string, rows: any[]}} props */
const Shares = ({ title, rows }) => html`<h2>${title}</h2><div class="table" tabindex="0"><table class="list"><thead><tr><th>Name</th><th class="number">Runs</th><th class="number">Tokens in</th><th class="number">Tokens out</th><th class="number">Cost</th></tr></thead>
  <tbody>${rows.map((row) => html`<tr><td>${row.name}</td><td class="number">${count(row.runs)}</td><td class="number">${short(row.prompt_tokens)}</td><td class="number">${short(row.completion_tokens)}</td><td class="number">${money(row.cost_usd)}</td></tr>`)}</tbody></table></div>`;

const COLOURS = ["--accent", "--warn", "--quiet"];

/** @param {{title: string, answer: any, lines: [string, (point: any) => number | null, string][]}} props `lines`: name, value of a point, and total of each line */
function Chart({ title, answer, lines }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    let chart = /** @type {any} */ (null);
    let gone = false;
    const resized = new ResizeObserver(([seen]) => chart?.setSize({ width: seen.target.clientWidth, height: 180 }));
    import("../../vendor/uplot.js").then(({ default: Plot }) => {
      const element = own.current;
      if (gone || !element) return;
      const style = getComputedStyle(document.documentElement);
      const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
      const data = [answer.series.map((/** @type {any} */ point) => point.at / 1000), ...lines.map(([, of]) => answer.series.map(of))];
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      chart = new Plot(
        {
          width: element.clientWidth,
          height: 180,
          legend: { show: lines.length > 1 },
          cursor: { y: false },
          axes: [axis, { ...axis, size: 54, values: (/** @type {any} */ _, /** @type {number[]} */ values) => ticks(values) }],
          series: [{}, ...lines.map(([label], at) => ({ label, stroke: colour(COLOURS[at]), fill: at === 0 ? `${colour(COLOURS[0])}22` : undefined, width: 2, points: { show: answer.series.length < 40 } }))],
        },
        data,
        element,
      );
      resized.observe(element);
    }, failed);
    return () => {
      gone = true;
      resized.disconnect();
      chart?.destroy();
    };
  }, [answer]);
  const said = lines.map(([label, , all]) => `${label}: ${all}`).join(", ");
  return html`<figure class="chart"><figcaption>${title}</figcaption><div ref=${own} role="img" aria-label=${`${title}. ${said}`}></div></figure>`;
}
