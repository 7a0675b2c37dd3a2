// The workspace's audit log for administrators, newest first.

import { BASE, get, query } from "../../lib/api.js";
import { html, useState } from "../../lib/html.js";
import { full } from "../../lib/words.js";
import { attempt } from "../../state/notices.js";
import { nameOf, usePeople } from "../../state/people.js";
import { Missing, useLoaded } from "../../view/loaded.js";

/** Number of entries per page. */
const ENTRIES = 50;

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
  return html`<p class="quiet">Entries are never changed or removed, and each contains the hash of the previous one. <code>windlass admin audit verify</code> checks a downloaded file, also on another machine.</p>
    <p><a class="button" href=${`${BASE}/audit/export`} download="audit.ndjson">Download full log</a></p>
    ${page.data.length === 0
      ? html`<p class="empty">No entries yet.</p>`
      : html`<div class="table" tabindex="0"><table class="list audit"><thead><tr><th class="number">No.</th><th>Time</th><th>Actor</th><th>Action</th><th>Subject</th><th>Details</th></tr></thead>
          <tbody>${page.data.map((entry) => html`<tr key=${entry.seq}><td class="number">${entry.seq}</td><td><time>${full(entry.at)}</time></td>
            <td>${entry.actor ? nameOf(entry.actor) : "unknown"}</td><td><code>${entry.action}</code></td><td class="long">${entry.subject ? nameOf(entry.subject) : ""}</td>
            <td><details><summary>${entry.from ?? "this machine"}</summary><dl class="facts"><div><dt>Via</dt><dd class="long">${entry.via ?? "–"}</dd></div>
              ${Object.entries(entry.details).map(([name, value]) => html`<div key=${name}><dt>${name.replaceAll("_", " ")}</dt><dd class="long">${typeof value === "string" ? value : JSON.stringify(value)}</dd></div>`)}</dl></details></td></tr>`)}</tbody></table></div>`}
    ${page.next_cursor && html`<p><button type="button" onClick=${more}>Load more</button></p>`}`;
}
