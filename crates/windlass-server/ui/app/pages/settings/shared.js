// Conversations that everybody in the workspace may read, and taking that back.

import { remove } from "../../lib/api.js";
import { html } from "../../lib/html.js";
import { full } from "../../lib/words.js";
import { attempt, done, failed } from "../../state/notices.js";
import { mayRun } from "../../state/session.js";
import { useAll, Wait } from "../../view/data.js";
import { linkOf } from "../../view/share.js";

/** The section. */
export function Page() {
  const { data, load, loaded } = useAll("/shares");
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  if (data.data.length === 0) {
    return html`<div class="empty"><h2>Nothing is shared</h2><p>“Share” above a conversation gives it a link that everybody in your workspace can read it by. It stands here until you take it back.</p></div>`;
  }
  return html`<p class="quiet">Everybody in your workspace who has the link can read these, also what comes later in them.</p>
    ${data.data.map((/** @type {any} */ one) => html`<div class="item row wrap" key=${one.thread}><a class="fill" href=${`/chat/${one.thread}`}>${one.title || "Without a title"}</a><span class="quiet">since ${full(one.at)}</span>
      <button type="button" onClick=${() => navigator.clipboard.writeText(linkOf(one.thread)).then(() => done("The link is copied."), failed)}>Copy the link</button>
      ${mayRun.value && html`<button type="button" class="danger" onClick=${() => attempt(() => remove(`/threads/${one.thread}/share`).then(load))}>Take back</button>`}</div>`)}`;
}
