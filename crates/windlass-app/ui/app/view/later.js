// A page that comes when it is asked for.

import { html, useEffect, useState } from "../lib/html.js";
import { failed } from "../state/notices.js";

/** @param {{load: () => Promise<{Page: any}>}} props */
export function Later({ load }) {
  const [Page, setPage] = useState(/** @type {any} */ (null));
  useEffect(() => {
    load().then((module) => setPage(() => module.Page), failed);
  }, []);
  return Page ? html`<${Page} />` : html`<div class="page" aria-busy="true"><span class="spinner"></span></div>`;
}
