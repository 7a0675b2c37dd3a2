// A conversation: what was said, what waits, and the field.

import { get, post, put, told } from "../lib/api.js";
import { html, useEffect, useMemo } from "../lib/html.js";
import { go } from "../lib/route.js";
import { Conversation } from "../state/conversation.js";
import { keepDraft } from "../state/drafts.js";
import { attempt, done, failed } from "../state/notices.js";
import { mayRun, me } from "../state/session.js";
import { load } from "../state/threads.js";
import { Icon } from "../view/icon.js";
import { AutoRun } from "./auto_run.js";
import { BatchBar } from "./batch.js";
import { Composer } from "./composer.js";
import { Queue } from "./queue.js";
import { Transcript } from "./transcript.js";

/** @param {{id: string}} props */
export function ChatPage({ id }) {
  const conversation = useMemo(() => new Conversation(id), [id]);
  useEffect(() => {
    conversation.begin();
    return () => conversation.end();
  }, [conversation]);
  if (conversation.failure.value) return html`<${Missing} error=${conversation.failure.value} />`;
  const own = conversation.owner.value === me.value?.id;
  /** @param {import("./composer.js").Draft} draft */
  const send = async (draft) => {
    for (const file of draft.files) await put(`/files/${encodeURIComponent(file.name)}`, undefined, { raw: file });
    const attachments = draft.files.map((file) => ({ upload: file.name }));
    await conversation.send(draft.text, { ...draft.options, ...(attachments.length > 0 ? { attachments } : {}) }, draft.key);
    load();
  };
  /** @param {import("../state/entry.js").Entry} entry @param {string} [text] what is said instead of it */
  const fork = async (entry, text) => {
    const at = text === undefined ? await behind(id, entry.seq) : await before(id, entry.seq);
    const made = await post(`/threads/${id}/fork`, { at });
    // A message that cannot be sent waits in the field of the conversation that was made for it.
    if (text !== undefined) {
      keepDraft(made.id, text);
      await post(`/threads/${made.id}/messages`, { message: text }).then(() => keepDraft(made.id, ""), failed);
    }
    load();
    go(`/chat/${made.id}`);
    done("This is a conversation of its own now; the other one is as it was.");
  };
  return html`<div class="chat">
    <header class="row">
      <h1 class="title">${conversation.title.value || "Conversation"}</h1>
      ${!conversation.connected.value && conversation.ready.value && html`<span class="quiet" role="status">connecting…</span>`}
      <span class="fill"></span>
      ${own && html`<${AutoRun} thread=${id} />`}
      <a class="button plain" href=${`/runs?thread=${id}`} title="What happened, step by step"><${Icon} name="runs" /> <span class="wide-only">Inspect</span></a>
      <button type="button" class="plain" title="Copy a link for people of this workspace" onClick=${() => navigator.clipboard.writeText(location.href).then(() => done("The link is copied. Administrators of this workspace can open it."), failed)}><${Icon} name="copy" /><span class="hidden">Copy the link</span></button>
    </header>
    <${Transcript} conversation=${conversation} onFork=${own && mayRun.value ? fork : undefined} />
    <div class="below">
      <${BatchBar} conversation=${conversation} />
      <${Queue} conversation=${conversation} />
      ${own && mayRun.value
        ? html`<${Composer} name=${id} busy=${conversation.isActive.value} onSend=${send} onStop=${() => attempt(() => conversation.cancel())} autofocus />`
        : conversation.ready.value && html`<p class="empty">You can read along here; writing is its owner's.</p>`}
      <${Footer} conversation=${conversation} />
    </div>
  </div>`;
}

/** The place in the journal before a message, where a fork may begin. @param {string} id @param {number} seq */
async function before(id, seq) {
  let after = Math.max(0, seq - 200);
  let at = 0;
  let active = false;
  for (;;) {
    const page = await get(`/threads/${id}/events?after=${after}&limit=200`);
    for (const event of page.data) {
      if (event.seq >= seq) return at;
      if (event.type === "run.started") active = true;
      if (event.type === "run.finished" || event.type === "run.withdrawn") active = false;
      if (!active) at = event.seq;
      after = event.seq;
    }
    if (page.data.length === 0) return at;
  }
}

/** The place in the journal where the run of an answer has ended. @param {string} id @param {number} seq */
async function behind(id, seq) {
  let after = seq;
  for (;;) {
    const page = await get(`/threads/${id}/events?after=${after}&limit=200`);
    const end = page.data.find((/** @type {any} */ event) => event.type === "run.finished");
    if (end) return end.seq;
    if (page.data.length === 0) throw new Error("The run goes on. Stop it, or wait for its end, and fork then.");
    after = page.data.at(-1).seq;
  }
}

/** @param {{error: any}} props */
function Missing({ error }) {
  const { title, hint } = told(error);
  const gone = error?.status === 404;
  return html`<div class="page"><h1>${gone ? "This conversation is not here" : "It cannot be shown"}</h1>
    <p>${gone ? "It was deleted, or it is somebody else's." : title}</p>${hint && html`<p>${hint}</p>`}
    <p><a class="button" href="/">Begin another one</a></p></div>`;
}

/** Tokens and cost of what is shown. (SK-U9) @param {{conversation: Conversation}} props */
function Footer({ conversation }) {
  const sum = { input: 0, output: 0, cached: 0, cost: 0, known: true };
  let last = null;
  for (const entry of conversation.entries.value) {
    entry.rev.value;
    if (!entry.usage) continue;
    last = entry;
    sum.input += entry.usage.input ?? 0;
    sum.output += entry.usage.output ?? 0;
    sum.cached += entry.usage.cached ?? 0;
    if (entry.costMicro === null) sum.known = false;
    else sum.cost += entry.costMicro;
  }
  if (!last) return html`<p class="figures"></p>`;
  const seconds = ((last.durationMs ?? 0) - (last.ttftMs ?? 0)) / 1000;
  const speed = seconds > 0.05 && last.usage.output ? `${Math.round(last.usage.output / seconds)} tokens/s · ` : "";
  const ttft = last.ttftMs === null ? "" : `first word after ${last.ttftMs} ms · `;
  return html`<p class="figures">${ttft}${speed}${sum.input.toLocaleString()} in${sum.cached ? ` (${sum.cached.toLocaleString()} cached)` : ""} · ${sum.output.toLocaleString()} out · ${sum.known ? "" : "≥ "}$${(sum.cost / 1e6).toFixed(4)}${conversation.hasOlder.value ? " (of what is loaded)" : ""}</p>`;
}
