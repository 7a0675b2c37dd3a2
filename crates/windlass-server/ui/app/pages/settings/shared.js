// Conversations that the user has shared with the workspace.

import { remove } from "../../lib/api.js";
import { html } from "../../lib/html.js";
import { full } from "../../lib/words.js";
import { attempt, done, failed } from "../../state/notices.js";
import { mayRun } from "../../state/session.js";
import { useAll, Wait } from "../../view/data.js";
import { linkOf } from "../../view/share.js";

export function Page() {
  const { data, load, loaded } = useAll("/shares");
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  if (data.data.length === 0) {
    return html`<div class="empty"><h2>Nothing is shared</h2><p>“Share” in a conversation creates a link for everyone in your workspace. Shared conversations appear here until you revoke the link.</p></div>`;
  }
  return html`<p class="quiet">Everyone in your workspace with the link can read these conversations, including later messages.</p>
    ${data.data.map((/** @type {any} */ one) => html`<div class="item row wrap" key=${one.thread}><a class="fill" href=${`/chat/${one.thread}`}>${one.title || "Untitled"}</a><span class="quiet">since ${full(one.at)}</span>
      <button type="button" onClick=${() => navigator.clipboard.writeText(linkOf(one.thread)).then(() => done("Link copied"), failed)}>Copy link</button>
      ${mayRun.value && html`<button type="button" class="danger" onClick=${() => attempt(() => remove(`/threads/${one.thread}/share`).then(load))}>Revoke link</button>`}</div>`)}`;
}
