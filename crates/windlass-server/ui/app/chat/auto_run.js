// The auto-run setting of a conversation: the calls that run without approval.

import { get, put, remove } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { attempt } from "../state/notices.js";

/** @type {Record<string, string>} */
export const AUTO_RUN = {
  ask: "Ask before every change",
  allowlist: "Ask, except for tools on your allow list",
  everything: "Ask only for destructive calls and where a policy rule requires it",
};

/** @param {{thread: string}} props */
export function AutoRun({ thread }) {
  const [now, setNow] = useState(/** @type {any} */ (null));
  useEffect(() => {
    get(`/threads/${thread}/auto-run`).then(setNow, () => {});
  }, [thread]);
  if (!now) return null;
  /** @param {string} value */
  const choose = async (value) => {
    const path = `/threads/${thread}/auto-run`;
    const next = await attempt(async () => (value === "" ? (await remove(path), await get(path)) : await put(path, { auto_run: value })));
    // A rejected change must also render, to show the setting that is in effect.
    setNow(next ?? { ...now });
  };
  return html`<select class="quiet-select" aria-label="Approvals" title=${AUTO_RUN[now.effective] ?? ""} value=${now.auto_run ?? ""} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
    <option value="">${`Approvals: ${now.effective} (default)`}</option>
    ${Object.keys(AUTO_RUN).map((name) => html`<option value=${name}>${`Approvals: ${name}`}</option>`)}
  </select>`;
}
