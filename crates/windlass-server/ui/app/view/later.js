// A page whose module is loaded on demand.

import { html } from "../lib/html.js";
import { Missing, useLoaded } from "./loaded.js";

/** @param {{load: () => Promise<{Page: any}>}} props */
export function Later({ load }) {
  const page = useLoaded(load);
  return page.value ? html`<${page.value.Page} />` : html`<div class="page"><${Missing} of=${page} /></div>`;
}
