// What a page reads when it opens, and reads again when something was changed.

import { get } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { failed } from "../state/notices.js";

/** What an address answers: `data` is null until then. @param {string} path */
export function useData(path) {
  const [data, setData] = useState(/** @type {any} */ (null));
  const load = () => get(path).then(setData, failed);
  useEffect(() => {
    load();
  }, [path]);
  return { data, load };
}

/** While there is nothing yet. */
export const Wait = () => html`<div aria-busy="true"><span class="spinner"></span></div>`;

/** The parts of a page. @param {{base: string, sections: {path: string, name: string}[], current: string, label: string}} props */
export const Tabs = ({ base, sections, current, label }) => html`<nav class="tabs" aria-label=${label}>
  ${sections.map(({ path, name }) => html`<a key=${path} href=${`${base}/${path}`} aria-current=${path === current ? "page" : undefined}>${name}</a>`)}
</nav>`;
