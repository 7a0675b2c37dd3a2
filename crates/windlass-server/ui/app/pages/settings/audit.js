// Who did what in the workspace, for its administrators, the newest first.

import { BASE, get, query } from "../../lib/api.js";
import { html, useState } from "../../lib/html.js";
import { full } from "../../lib/words.js";
import { attempt } from "../../state/notices.js";
import { nameOf, usePeople } from "../../state/people.js";
import { Missing, useLoaded } from "../../view/loaded.js";

/** Entries that are read at once. */
const ENTRIES = 50;

/** The section. */
export function Page() {
  usePeople();
  const [rest, setRest] = useState(/** @type {{data: any[], next_cursor?: string} | null} */ (null));
  const first = useLoaded((stop) => get(`/audit${query({ limit: ENTRIES })}`, { stop }));
  /** @type {{data: any[], next_cursor?: string} | null} */
  const page = rest ?? first.value;
  if (!page) return html`<${Missing} of=${first} />`;
  const more = () =>
    attempt(async () => {
      const next = await get(`/audit${query({ limit: ENTRIES, cursor: page.next_cursor })}`);
      setRest({ ...next, data: [...page.data, ...next.data] });
    });
  return html`<p class="quiet">Nothing changes or removes an entry, and each names the one before. <code>windlass admin audit verify</code> checks the file, also where this server is not.</p>
    <p><a class="button" href=${`${BASE}/audit/export`} download="audit.ndjson">Download all of it</a></p>
    ${page.data.length === 0
      ? html`<p class="empty">Nothing has been done yet.</p>`
      : html`<div class="table" tabindex="0"><table class="list audit"><thead><tr><th class="number">No.</th><th>When</th><th>Who</th><th>What</th><th>To what or whom</th><th>More</th></tr></thead>
          <tbody>${page.data.map((entry) => html`<tr key=${entry.seq}><td class="number">${entry.seq}</td><td><time>${full(entry.at)}</time></td>
            <td>${entry.actor ? nameOf(entry.actor) : "nobody who is known"}</td><td><code>${entry.action}</code></td><td class="long">${entry.subject ? nameOf(entry.subject) : ""}</td>
            <td><details><summary>${entry.from ?? "this machine"}</summary><dl class="facts"><div><dt>Came by</dt><dd class="long">${entry.via ?? "–"}</dd></div>
              ${Object.entries(entry.details).map(([name, value]) => html`<div key=${name}><dt>${name.replaceAll("_", " ")}</dt><dd class="long">${typeof value === "string" ? value : JSON.stringify(value)}</dd></div>`)}</dl></details></td></tr>`)}</tbody></table></div>`}
    ${page.next_cursor && html`<p><button type="button" onClick=${more}>Earlier ones</button></p>`}`;
}
