// A conversation: what was said, what waits, and the field.

import { post, put, told } from "../lib/api.js";
import { html, useCallback, useEffect, useMemo } from "../lib/html.js";
import { go } from "../lib/route.js";
import { Conversation } from "../state/conversation.js";
import { keepDraft } from "../state/drafts.js";
import { before, behind } from "../state/journal.js";
import { attempt, done, failed } from "../state/notices.js";
import { mayRun, me } from "../state/session.js";
import { load } from "../state/threads.js";
import { FilesButton } from "../view/files.js";
import { Icon } from "../view/icon.js";
import { ReadOnly, ShareButton } from "../view/share.js";
import { AutoRun } from "./auto_run.js";
import { BatchBar } from "./batch.js";
import { Composer } from "./composer.js";
import { Footer } from "./footer.js";
import { Queue } from "./queue.js";
import { Told } from "./told.js";
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
    const more = { ...draft.options, ...(attachments.length > 0 ? { attachments } : {}) };
    const rollback = conversation.rollback.value;
    if (rollback === null) await conversation.send(draft.text, more, draft.key);
    else {
      const made = await conversation.carryOut(rollback);
      // A message that cannot be sent waits in the field of the conversation that was made for it.
      keepDraft(made, draft.text);
      await post(`/threads/${made}/messages`, { message: draft.text, ...more }, { once: draft.key }).then(() => keepDraft(made, ""), failed);
      go(`/chat/${made}`);
    }
    load();
  };
  const fork = useCallback(async (/** @type {import("../state/entry.js").Entry} */ entry, /** @type {string | undefined} */ text) => {
    const at = text === undefined ? await behind(id, entry.seq) : await before(id, entry.seq);
    const made = await post(`/threads/${id}/fork`, { at });
    // A message that cannot be sent waits in the field of the conversation that was made for it.
    if (text !== undefined) {
      keepDraft(made.id, text);
      const { model, mode } = entry;
      await post(`/threads/${made.id}/messages`, { message: text, ...(model ? { model } : {}), ...(mode ? { mode } : {}) }).then(() => keepDraft(made.id, ""), failed);
    }
    load();
    go(`/chat/${made.id}`);
    done("This is a conversation of its own now; the other one is as it was.");
  }, [id]);
  const back = useCallback((/** @type {import("../state/entry.js").Entry} */ entry) => attempt(() => conversation.rollBack(entry)), [conversation]);
  const may = own && mayRun.value;
  return html`<div class="chat">
    <${Told} conversation=${conversation} />
    <header class="row">
      <h1 class="title">${conversation.title.value || "Conversation"}</h1>
      ${!conversation.connected.value && conversation.ready.value && html`<span class="quiet" role="status">connecting…</span>`}
      <span class="fill"></span>
      ${own && html`<${AutoRun} thread=${id} />`}
      ${conversation.isMine.value && html`<a class="button plain" href=${`/runs?thread=${id}`} title="What happened, step by step"><${Icon} name="runs" /> <span class="wide-only">Inspect</span></a>`}
      ${conversation.isMine.value && html`<${FilesButton} thread=${id} />`}
      ${conversation.isMine.value && mayRun.value && html`<${ShareButton} thread=${id} />`}
    </header>
    <${Transcript} conversation=${conversation} onFork=${may ? fork : undefined} onBack=${may ? back : undefined} />
    <div class="below">
      <${BatchBar} conversation=${conversation} />
      <${Queue} conversation=${conversation} />
      ${may
        ? html`<${Composer} name=${id} busy=${conversation.isActive.value} was=${conversation.chosen.value} more=${conversation.more} onSend=${send} onStop=${() => attempt(() => conversation.cancel())} autofocus />`
        : conversation.ready.value && html`<${ReadOnly} thread=${id} own=${own} />`}
      <${Footer} conversation=${conversation} />
    </div>
  </div>`;
}

/** @param {{error: any}} props */
function Missing({ error }) {
  const { title, hint } = told(error);
  const gone = error?.status === 404;
  return html`<div class="page"><h1>${gone ? "This conversation is not here" : "It cannot be shown"}</h1>
    <p>${gone ? "It was deleted, or it is somebody else's." : title}</p>${hint && html`<p>${hint}</p>`}
    <p><a class="button" href="/">Begin another one</a></p></div>`;
}
