// An open interrupt: the request with its details, and the controls to answer it.

import { visible } from "../lib/exact.js";
import { html, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { isBudget, isMoney, limitAmount } from "../lib/limits.js";
import { full, tidyJson } from "../lib/words.js";
import { summary } from "../state/interrupts.js";
import { answer } from "../state/inbox.js";
import { attempt } from "../state/notices.js";
import { me } from "../state/session.js";
import { hold, leave, onlyMeant } from "./asks.js";
import { Arguments } from "./arguments.js";
import { Diff, isDiff } from "./diff.js";
import { Edit } from "./edit.js";
import { Fields, like, valuesOf } from "./fields.js";
import { Icon } from "./icon.js";
import { Ago } from "./ticking.js";

/** @param {{open: import("../state/inbox.js").Interrupt, onAnswered?: () => void, where?: boolean}} props `where`: whether to name its conversation */
export function Ask({ open, onAnswered, where = false }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => {
    const section = own.current;
    return () => section && leave(section);
  }, []);
  /** @param {object} said @param {object} [grant] */
  const give = async (said, grant) => {
    hold(own.current);
    setBusy(true);
    await attempt(() => answer(open, said, grant));
    // Call this after an error, too: another user may have answered.
    onAnswered?.();
    setBusy(false);
  };
  const Body = BODIES[open.kind] ?? Handoff;
  return html`<section class="ask" ref=${own} tabindex="0" data-kind=${open.kind} aria-label=${summary(open)} onClickCapture=${onlyMeant}>
    <header class="row"><${Icon} name="warn" size=${16} /><strong class="fill">${summary(open)}</strong>
      ${where && open.readable && html`<a href=${`/chat/${open.thread}`}>Open conversation</a>`}
      <${Ago} at=${open.since} /></header>
    ${where && html`<p class="quiet whose">${whose(open)}</p>`}
    ${!open.counts && open.kind === "approval" && html`<p class="quiet">${open.approved_by.length > 0 ? `Approved by ${open.approved_by.join(", ")}. Another approval is required.` : "Another user must approve. You can still deny it."}</p>`}
    ${open.expires_at && html`<p class="quiet">${silence(open, open.expires_at)}</p>`}
    <${Body} open=${open} give=${give} busy=${busy} section=${own} />
  </section>`;
}

/** Names the conversation and its owner. @param {import("../state/inbox.js").Interrupt} open */
function whose({ title, owner, readable }) {
  const name = owner.name || owner.id;
  if (!readable) return `In a conversation of ${name} that you cannot open`;
  const which = title ? `In “${title}”` : "In an untitled conversation";
  return owner.id === me.value?.id ? which : `${which}, of ${name}`;
}

/** Describes the outcome of an expiry. @param {import("../state/inbox.js").Interrupt} open @param {number} at */
function silence({ terms, kind }, at) {
  const then = terms.on_expiry === "approve" ? "approved" : kind === "question" ? "declined" : "denied";
  return `Expires on ${full(at)}; it is then ${then} automatically.`;
}

/** @typedef {{open: import("../state/inbox.js").Interrupt, give: (said: object, grant?: object) => Promise<void>, busy: boolean, section: {current: HTMLElement | null}}} Props */

/** A call that needs approval: approve, edit, grant, or deny with a reason. @param {Props} props */
function Approval({ open, give, busy, section }) {
  const [mode, setMode] = useState(/** @type {"" | "edit" | "deny" | "grant"} */ (""));
  const before = useRef(mode);
  // The focused button disappears: move the focus to the first field, and later back to the button.
  useLayoutEffect(() => {
    if (before.current === mode) return;
    const next = section.current?.querySelector(mode === "" ? `[data-mode=${before.current}]` : "form :is(input, select, textarea)");
    if (next instanceof HTMLElement) next.focus();
    else section.current?.focus();
    before.current = mode;
  }, [mode]);
  const args = tidyJson(open.arguments ?? "{}");
  const preview = visible(open.preview ?? "");
  if (mode === "edit") return html`<${Edit} tool=${open.tool} args=${args} busy=${busy} onCancel=${() => setMode("")} onSave=${(/** @type {object} */ values) => give({ kind: "edit", arguments: values })} />`;
  return html`
    ${open.reason && html`<p>${open.reason}</p>`}
    ${preview && (isDiff(preview) ? html`<${Diff} text=${preview} />` : html`<pre tabindex="0">${preview}</pre>`)}
    <details open=${!preview}><summary>Arguments</summary><${Arguments} text=${args} /></details>
    ${mode === "deny" && html`<form class="row" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      const reason = event.target.elements.reason.value.trim();
      give({ kind: "deny", ...(reason ? { reason } : {}) });
    }}><input class="fill" name="reason" maxlength="2000" placeholder="Reason (optional, shown to the agent)" aria-label="Reason" />
      <button type="submit" class="danger" disabled=${busy}>Deny</button><button type="button" onClick=${() => setMode("")}>Back</button></form>`}
    ${mode === "grant" && html`<${Grant} open=${open} busy=${busy} onCancel=${() => setMode("")} onGive=${(/** @type {object} */ grant) => give({ kind: "approve" }, grant)} />`}
    ${mode === "" && html`<div class="row wrap">
      <button type="button" class="primary" data-key="approve" disabled=${busy || !open.counts} onClick=${() => give({ kind: "approve" })}>Approve</button>
      <button type="button" data-key="deny" data-mode="deny" disabled=${busy} onClick=${() => setMode("deny")}>Deny…</button>
      <button type="button" data-mode="edit" disabled=${busy} onClick=${() => setMode("edit")}>Edit…</button>
      <button type="button" class="plain" data-mode="grant" disabled=${busy || !open.counts} onClick=${() => setMode("grant")}>Always allow…</button>
    </div>`}`;
}

/**
 * Defined once at module level: Preact calls a ref again on each render if its function changes.
 * @param {HTMLElement | null} own
 */
const focused = (own) => own?.focus();

/** The scope of a grant. @param {{open: any, busy: boolean, onCancel: () => void, onGive: (grant: object) => void}} props */
function Grant({ busy, onCancel, onGive }) {
  /** @param {any} event */
  const give = (event) => {
    event.preventDefault();
    const { count, hours, which } = event.target.elements;
    onGive({
      ...(count.value ? { count: Number(count.value) } : {}),
      ...(hours.value ? { expires_in_ms: Math.round(Number(hours.value) * 3600000) } : {}),
      ...(which.value === "any" ? { arguments: [] } : {}),
    });
  };
  return html`<form class="grant" onSubmit=${give}>
    <label>Allow <select name="which"><option value="same">these exact arguments</option><option value="any">any arguments</option></select></label>
    <label>Limit (calls) <input name="count" type="number" min="1" max="100000" placeholder="no limit" /></label>
    <label>Expires after (hours) <input name="hours" type="number" min="0.01" step="any" placeholder="never" /></label>
    <div class="row"><button type="submit" class="primary" disabled=${busy}>Approve and always allow</button><button type="button" onClick=${onCancel}>Back</button></div>
  </form>`;
}

/** @param {Props} props */
function Question({ open, give, busy }) {
  const question = open.question ?? {};
  const [wrong, setWrong] = useState("");
  const schema = question.schema ?? (question.params ? { type: "object", properties: Object.fromEntries(Object.entries(question.params).map(([name, value]) => [name, like(value)])) } : null);
  /**
   * Answers a question. Sends the values and the text even if the user chooses an option.
   * @param {HTMLFormElement} form @param {string} [option]
   */
  const reply = (form, option) => {
    if (!form.reportValidity()) return;
    try {
      const values = schema ? valuesOf(form, schema, question.schema ? undefined : question.params) : undefined;
      const text = /** @type {any} */ (form.elements.namedItem("own"))?.value.trim();
      give({ kind: "reply", ...(option === undefined ? {} : { selected: option }), ...(values ? { values } : {}), ...(text ? { text } : {}) });
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error));
    }
  };
  return html`<form onSubmit=${(/** @type {any} */ event) => {
    event.preventDefault();
    reply(event.target);
  }}>
    ${question.checkpoint && html`<p class="quiet">${question.checkpoint}</p>`}
    ${question.options?.length > 0 && html`<div class="row wrap">${question.options.map((/** @type {string} */ option) => html`<button type="button" disabled=${busy} onClick=${(/** @type {any} */ event) => reply(event.target.form, option)}>${option}</button>`)}</div>`}
    ${schema && html`<${Fields} schema=${schema} values=${question.params ?? {}} changes=${!question.schema} />`}
    ${question.free_input && html`<textarea name="own" rows="2" aria-label="Your answer" placeholder="Your answer"></textarea>`}
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    <div class="row">
      ${(schema || question.free_input || !(question.options?.length > 0)) && html`<button type="submit" class="primary" disabled=${busy}>${schema || question.free_input ? "Answer" : "Continue"}</button>`}
      <button type="button" disabled=${busy} onClick=${() => give({ kind: "deny" })}>Decline</button>
    </div>
  </form>`;
}

/** @param {Props} props */
const SignIn = ({ open, give, busy }) => html`
  <p>${open.reason || `The server ${open.server} requires you to sign in. The sign-in page opens in a new window; then the run continues.`}</p>
  <p class="quiet address">${open.url}</p>
  <div class="row wrap">${/^https?:/.test(open.url ?? "") && html`<a class="button primary" href=${open.url} target="_blank" rel="noopener noreferrer">Sign in to ${hostOf(open.url)}</a>`}
    <button type="button" disabled=${busy} onClick=${() => give({ kind: "reply" })}>I have signed in</button>
    <button type="button" disabled=${busy} onClick=${() => give({ kind: "deny" })}>Decline</button></div>`;

/** @param {string | null} url */
function hostOf(url) {
  try {
    return new URL(url ?? "").host;
  } catch {
    return "the server";
  }
}

/** A call in doubt: the evidence, and the user's decision. @param {Props} props */
function InDoubt({ open, give, busy }) {
  const [mode, setMode] = useState("");
  return html`<p>The call started, but its outcome is unknown. Check whether it took effect before you answer.</p>
    <dl class="facts">
      ${open.begun_at && html`<div><dt>Started</dt><dd><time>${full(open.begun_at)}</time>, <${Ago} at=${open.begun_at} /></dd></div>`}
      ${open.reason && html`<div><dt>Reason</dt><dd>${visible(open.reason)}</dd></div>`}
      ${open.effect && html`<div><dt>Effect ID</dt><dd><code class="long">${open.effect}</code></dd></div>`}
    </dl>
    <details open><summary>Arguments</summary><pre tabindex="0">${tidyJson(open.arguments ?? "{}")}</pre></details>
    ${mode === "done"
      ? html`<form class="row" onSubmit=${(/** @type {any} */ event) => {
          event.preventDefault();
          give({ kind: "done", result: event.target.elements.result.value || "The call was completed." });
        }}><input class="fill" name="result" placeholder="Result (optional, shown to the agent)" aria-label="Result" ref=${focused} /><button type="submit" class="primary" disabled=${busy}>Mark as done</button></form>`
      : html`<div class="row wrap"><button type="button" onClick=${() => setMode("done")}>Mark as done…</button>
          <button type="button" disabled=${busy} onClick=${() => give({ kind: "retry" })}>Not done: retry</button>
          <button type="button" disabled=${busy} onClick=${() => give({ kind: "fail" })}>Mark as failed</button></div>`}`;
}

/** @param {Props} props */
function Limit({ open, give, busy }) {
  const { limit } = open;
  // The API counts money in millionths of a dollar; the form uses dollars.
  const inDollars = isMoney(limit);
  const part = inDollars ? 1e6 : 1;
  const least = limit.used + 1;
  return html`<p>Used: ${limitAmount(limit, limit.used)} of ${limitAmount(limit, limit.figure)}.</p>
    ${!open.counts && html`<p class="quiet">Another user must raise this limit.</p>`}
    <form class="row wrap" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      give({ kind: "raise", to: Math.round(Number(event.target.elements.to.value) * part) });
    }}>${open.counts && html`<label>Raise to <input name="to" type="number" min=${least / part} step=${inDollars ? "any" : 1} required defaultValue=${Math.max(limit.figure * 2, least) / part || 1} />${inDollars && " US dollars"}</label>
      <button type="submit" class="primary" disabled=${busy}>Continue</button>`}
      ${isBudget(limit) && html`<button type="button" title="Check whether the budget has room again" disabled=${busy} onClick=${() => give({ kind: "retry" })}>Try again</button>`}
      <button type="button" disabled=${busy} onClick=${() => give({ kind: "stop" })}>Stop run</button></form>`;
}

/** @param {Props} props */
const Handoff = ({ open }) => html`<p class="quiet">The run continues when ${open.runner ?? "the other system"} has answered.</p>`;

/** @type {Record<string, any>} */
const BODIES = { approval: Approval, hook: Approval, question: Question, sign_in: SignIn, in_doubt: InDoubt, limit: Limit, handoff: Handoff };
