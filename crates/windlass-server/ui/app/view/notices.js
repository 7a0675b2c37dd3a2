// The list of notices. An open modal dialog makes the rest of the page inert, so the topmost dialog shows the notices.

import { html } from "../lib/html.js";
import { dismiss, hold, notices, resume } from "../state/notices.js";

/** @param {{here?: boolean}} props `here`: whether this instance shows the notices */
export const Notices = ({ here = true }) => html`<div class="notices" role="status" aria-live="polite" aria-label="Notices">
  ${here &&
  notices.value.map(
    (notice) => html`<div class="notice" data-kind=${notice.kind} key=${notice.id} onPointerEnter=${() => hold(notice.id)} onPointerLeave=${() => resume(notice.id)} onFocusIn=${() => hold(notice.id)} onFocusOut=${() => resume(notice.id)}>
      <div><strong>${notice.title}</strong>${notice.hint && html`<p>${notice.hint}</p>`}${(notice.details?.length ?? 0) > 0 && html`<details onToggle=${() => hold(notice.id)}><summary>Show details</summary><ul>${notice.details?.map((line) => html`<li key=${line}>${line}</li>`)}</ul></details>`}</div>
      <button type="button" class="plain" aria-label="Dismiss" onClick=${() => dismiss(notice.id)}>×</button>
    </div>`,
  )}
</div>`;
