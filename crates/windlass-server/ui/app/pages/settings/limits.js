// What one's runs may still use.

import { html } from "../../lib/html.js";
import { money } from "../../lib/words.js";
import { useData, Wait } from "../../view/data.js";

/** The section. */
export function Page() {
  const { data, loaded } = useData("/limits");
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  if (data.data.length === 0) return html`<div class="empty"><h2>Nothing is limited</h2><p>Budgets of money, tokens or steps are set in <code>windlass.toml</code>; an administrator can give people a credit.</p></div>`;
  return html`${data.data.map((/** @type {any} */ limit) => {
    const said = (/** @type {number} */ amount) => (limit.unit === "usd" ? money(amount / 1e6) : amount.toLocaleString());
    const name = `${limit.unit} per ${limit.per}${limit.window === "day" ? ", each day" : ""}`;
    return html`<div class="item"><div class="row"><strong class="fill">${name}</strong><span>${said(limit.used)} of ${said(limit.cap)}</span></div><meter aria-label=${name} min="0" max=${limit.cap} value=${limit.used + (limit.reserved ?? 0)}></meter></div>`;
  })}`;
}
