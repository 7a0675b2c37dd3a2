// Which calls of this conversation run without asking.

import { get, put, remove } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { attempt } from "../state/notices.js";

/** @type {Record<string, string>} */
export const AUTO_RUN = {
  ask: "Asks before it changes anything",
  allowlist: "Asks, but for what is on your allow list",
  everything: "Asks only where a rule says so",
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
    // Drawn anew in any case: what was refused is not what counts.
    setNow(next ?? { ...now });
  };
  return html`<select class="quiet-select" aria-label="When it asks" title=${AUTO_RUN[now.effective] ?? ""} value=${now.auto_run ?? ""} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
    <option value="">${`${now.effective}, as usual`}</option>
    ${Object.keys(AUTO_RUN).map((name) => html`<option value=${name}>${name}</option>`)}
  </select>`;
}
