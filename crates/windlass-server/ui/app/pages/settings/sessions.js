// The user's sessions.

import { remove } from "../../lib/api.js";
import { device } from "../../lib/device.js";
import { html } from "../../lib/html.js";
import { attempt } from "../../state/notices.js";
import { find } from "../../state/session.js";
import { useData, Wait } from "../../view/data.js";
import { Ago } from "../../view/ticking.js";

export function Page() {
  const { data, load, loaded } = useData("/auth/sessions");
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  return html`${data.data.map((/** @type {any} */ one) => html`<div class="item row wrap" key=${one.id}><span class="fill" title=${one.agent ?? ""}>${device(one.agent)}<br /><span class="quiet">${one.from ? `${one.from}, ` : ""}last seen <${Ago} at=${one.seen_at} />${one.current ? " (this session)" : ""}</span></span>
      ${!one.current && html`<button type="button" onClick=${() => attempt(() => remove(`/auth/sessions/${one.id}`).then(load))}>End session</button>`}</div>`)}
    <p><button type="button" class="danger" onClick=${() => attempt(async () => (await remove("/auth/sessions"), await find()))}>Sign out everywhere</button></p>`;
}
