// The user's budgets and their current use.

import { html } from "../../lib/html.js";
import { money } from "../../lib/words.js";
import { useData, Wait } from "../../view/data.js";

export function Page() {
  const { data, loaded } = useData("/limits");
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  if (data.data.length === 0) return html`<div class="empty"><h2>No limits</h2><p>Budgets for money, tokens or steps are set in <code>windlass.toml</code>. An administrator can set a credit for each user.</p></div>`;
  return html`${data.data.map((/** @type {any} */ limit) => {
    const said = (/** @type {number} */ amount) => (limit.unit === "usd" ? money(amount / 1e6) : amount.toLocaleString());
    const name = `${limit.unit} per ${limit.per}${limit.window === "day" ? ", daily" : ""}`;
    return html`<div class="item"><div class="row"><strong class="fill">${name}</strong><span>${said(limit.used)} of ${said(limit.cap)}</span></div><meter aria-label=${name} min="0" max=${limit.cap} value=${limit.used + (limit.reserved ?? 0)}></meter></div>`;
  })}`;
}
