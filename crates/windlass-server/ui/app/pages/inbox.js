// Everything that waits for this person, over all conversations.

import { html, useEffect, useState } from "../lib/html.js";
import { inbox, load, mine } from "../state/inbox.js";
import { attempt } from "../state/notices.js";
import { Ask } from "../view/ask.js";
import { Batch } from "../view/batch.js";

/** The page. */
export function Page() {
  const [granted, setGranted] = useState("Notification" in window ? Notification.permission : "denied");
  const reload = () => attempt(load);
  useEffect(() => void reload(), []);
  const all = inbox.value;
  return html`<div class="page">
    <header class="row"><h1 class="fill">Inbox</h1>
      ${granted === "default" && html`<button type="button" title="Of what waits for you, and of runs that end while you look elsewhere" onClick=${() => Notification.requestPermission().then(setGranted)}>Notify me in this browser</button>`}</header>
    ${all.length === 0
      ? html`<div class="empty"><h2>Nothing waits for you</h2><p>When a run wants to change something that needs your word, has a question, or has reached a limit, it stands here, whichever conversation it is in. Runs wait as long as it takes, also over a restart.</p></div>`
      : html`<p class="quiet" role="status">${said(mine.value.length, all.length - mine.value.length)}</p>`}
    ${all.flatMap((open, at) => {
      const ask = html`<${Ask} key=${open.id} open=${open} onAnswered=${reload} where />`;
      return all[at - 1]?.run === open.run ? [ask] : [html`<${Batch} key=${`batch ${open.run}`} asks=${all.filter((one) => one.run === open.run)} onAnswered=${reload} />`, ask];
    })}
  </div>`;
}

/** One list for both: what comes for one of them moves none of the others. @param {number} own @param {number} others */
function said(own, others) {
  const first = own === 0 ? "Nothing waits for you" : own === 1 ? "1 waits for you" : `${own} wait for you`;
  return `${first}${others > 0 ? `, ${others} for others` : ""}.`;
}
