// The page of a conversation: transcript, queue and composer.

import { told } from "../lib/api.js";
import { html, useCallback, useEffect, useMemo } from "../lib/html.js";
import { go } from "../lib/route.js";
import { along } from "../state/again.js";
import { Conversation, passes, shown } from "../state/conversation.js";
import { continueWith, fork } from "../state/fork.js";
import { before, behind } from "../state/journal.js";
import { attempt, done } from "../state/notices.js";
import { upload } from "../state/outgoing.js";
import { mayRun, me } from "../state/session.js";
import { refresh } from "../state/threads.js";
import { CommandsButton } from "../view/commands.js";
import { FilesButton } from "../view/files.js";
import { ForkOf } from "../view/fork.js";
import { Icon } from "../view/icon.js";
import { ReadOnly, ShareButton } from "../view/share.js";
import { AutoRun } from "./auto_run.js";
import { BatchBar } from "./batch.js";
import { Composer } from "./composer.js";
import { Footer } from "./footer.js";
import { Queue } from "./queue.js";
import { Told } from "./told.js";
import { Transcript } from "./transcript.js";

/** @typedef {import("../state/entry.js").Entry} Entry */

/** @param {{id: string}} props */
export function ChatPage({ id }) {
  const conversation = useMemo(() => new Conversation(id), [id]);
  useEffect(() => {
    conversation.begin();
    shown.value = conversation;
    return () => {
      if (shown.value === conversation) shown.value = null;
      conversation.end();
    };
  }, [conversation]);
  if (conversation.failure.value) return html`<${Missing} conversation=${conversation} />`;
  const own = conversation.owner.value === me.value?.id;
  /** @param {import("./composer.js").Draft} draft */
  const send = async (draft) => {
    const rollback = conversation.rollback.plan.value;
    if (rollback === null) await conversation.sending.send(draft.text, draft.options, draft.key, draft.files);
    else {
      const more = { ...draft.options, ...(await upload(draft.files, () => {})) };
      const made = await continueWith(id, rollback.at, { text: draft.text, options: more, key: draft.key, files: draft.files });
      conversation.rollback.plan.value = null;
      go(`/chat/${made}`);
    }
    refresh();
  };
  const branch = useCallback(async (/** @type {Entry} */ entry, /** @type {string | undefined} */ text, said = [entry]) => {
    const at = text === undefined ? await behind(id, entry.seq) : await before(id, entry.seq);
    const made = text === undefined ? await fork(id, at) : await continueWith(id, at, { text, options: along(id, said), key: crypto.randomUUID() });
    refresh();
    go(`/chat/${made}`);
    done("Forked into a new conversation.");
  }, [id]);
  const back = useCallback((/** @type {Entry} */ entry) => attempt(() => conversation.rollback.look(entry.seq)), [conversation]);
  const may = own && mayRun.value;
  return html`<div class="chat">
    <${Told} conversation=${conversation} />
    <header class="row">
      <h1 class="title">${conversation.title.value || "Conversation"}</h1>
      ${!conversation.connected.value && conversation.ready.value && html`<span class="quiet" role="status">Connecting…</span>`}
      <span class="fill"></span>
      ${own && html`<${AutoRun} thread=${id} />`}
      ${conversation.isMine.value && html`<a class="button plain" href=${`/runs?thread=${id}`} title="Show the runs of this conversation"><${Icon} name="runs" /> <span class="wide-only">Inspect</span></a>`}
      ${conversation.isMine.value && html`<${CommandsButton} thread=${id} busy=${conversation.isActive.value} />`}
      ${conversation.isMine.value && html`<${FilesButton} thread=${id} />`}
      ${conversation.isMine.value && mayRun.value && html`<${ShareButton} thread=${id} />`}
    </header>
    <${ForkOf} of=${conversation.origin.value} />
    <${Transcript} conversation=${conversation} onFork=${may ? branch : undefined} onBack=${may ? back : undefined} />
    <div class="below">
      <${BatchBar} conversation=${conversation} />
      <${Queue} conversation=${conversation} />
      ${may
        ? html`<${Composer} name=${id} busy=${conversation.isActive.value} leaves=${conversation.rollback.plan.value !== null} was=${conversation.chosen.value} more=${conversation.more} onSend=${send} onStop=${() => attempt(() => conversation.cancel())} autofocus />`
        : conversation.ready.value && html`<${ReadOnly} thread=${id} own=${own} />`}
      <${Footer} conversation=${conversation} />
    </div>
  </div>`;
}

/** @param {{conversation: Conversation}} props */
function Missing({ conversation }) {
  const error = /** @type {any} */ (conversation.failure.value);
  const { title, hint } = told(error);
  const gone = error?.status === 404;
  return html`<div class="page"><h1>${gone ? "Conversation not found" : "Cannot load this conversation"}</h1>
    <p>${gone ? "It was deleted, or you do not have access to it." : title}</p>${hint && html`<p>${hint}</p>`}
    ${passes(error) && html`<p class="quiet">Retrying…</p>`}
    <p class="row wrap">${!gone && !passes(error) && html`<button type="button" class="primary" onClick=${() => conversation.begin()}>Try again</button>`}
      <a class="button" href="/">New conversation</a></p></div>`;
}
