// The inbox: open interrupts of all conversations.

import { html, useEffect, useState } from "../lib/html.js";
import { inbox, load, mine } from "../state/inbox.js";
import { attempt } from "../state/notices.js";
import { Ask } from "../view/ask.js";
import { Batch } from "../view/batch.js";

export function Page() {
  const [granted, setGranted] = useState("Notification" in window ? Notification.permission : "denied");
  const reload = () => attempt(load);
  useEffect(() => void reload(), []);
  const all = inbox.value;
  return html`<div class="page">
    <header class="row"><h1 class="fill">Inbox</h1>
      ${granted === "default" && html`<button type="button" title="Get notified of requests and of finished runs while this page is hidden" onClick=${() => Notification.requestPermission().then(setGranted)}>Turn on notifications</button>`}</header>
    ${all.length === 0
      ? html`<div class="empty"><h2>Inbox is empty</h2><p>Approvals, questions and reached limits of all conversations appear here. A run waits until you answer, also across restarts.</p></div>`
      : html`<p class="quiet" role="status">${said(mine.value.length, all.length - mine.value.length)}</p>`}
    ${all.flatMap((open, at) => {
      const ask = html`<${Ask} key=${open.id} open=${open} onAnswered=${reload} where />`;
      return all[at - 1]?.run === open.run ? [ask] : [html`<${Batch} key=${`batch ${open.run}`} asks=${all.filter((one) => one.run === open.run)} onAnswered=${reload} />`, ask];
    })}
  </div>`;
}

/**
 * Returns the text with both counts above the list. The list contains both kinds, so that a new request never moves the
 * other requests.
 * @param {number} own @param {number} others
 */
function said(own, others) {
  const first = own === 0 ? "No requests for you" : own === 1 ? "1 request for you" : `${own} requests for you`;
  return `${first}${others > 0 ? `, ${others} for others` : ""}.`;
}
