// Everything that waits for this person, over all conversations.

import { html, useEffect, useState } from "../lib/html.js";
import { inbox, load, mine } from "../state/inbox.js";
import { attempt } from "../state/notices.js";
import { Ask } from "../view/ask.js";

/** The page. */
export function Page() {
  const [granted, setGranted] = useState("Notification" in window ? Notification.permission : "denied");
  const reload = () => attempt(load);
  useEffect(() => void reload(), []);
  const others = inbox.value.filter((open) => !open.counts);
  return html`<div class="page">
    <header class="row"><h1 class="fill">Inbox</h1>
      ${granted === "default" && html`<button type="button" onClick=${() => Notification.requestPermission().then(setGranted)}>Notify me in this browser</button>`}</header>
    ${mine.value.length === 0 && html`<div class="empty"><h2>Nothing waits for you</h2><p>When a run wants to change something that needs your word, has a question, or has reached a limit, it stands here, whichever conversation it is in. Runs wait as long as it takes, also over a restart.</p></div>`}
    ${mine.value.map((open, at) => html`<${Ask} key=${open.id} open=${open} isFirst=${at === 0} onAnswered=${reload} where />`)}
    ${others.length > 0 && html`<h2>Waits for others</h2>${others.map((open) => html`<${Ask} key=${open.id} open=${open} onAnswered=${reload} where />`)}`}
  </div>`;
}
