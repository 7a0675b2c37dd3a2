// What a page reads when it opens, and reads again when something was changed.

import { all, get } from "../lib/api.js";
import { html, useEffect } from "../lib/html.js";
import { failed } from "../state/notices.js";
import { Missing, useLoaded } from "./loaded.js";

/** What an address answers: `data` is null until then. @param {string} path */
export const useData = (path) => useRead(get, path);

/** The same of a list, with all of its pages. @param {string} path */
export const useAll = (path) => useRead(all, path);

/** @param {(path: string, options: {stop: AbortSignal}) => Promise<any>} read @param {string} path */
function useRead(read, path) {
  const loaded = useLoaded((stop) => read(path, { stop }), [path]);
  const isStale = loaded.error !== null && loaded.value !== null;
  useEffect(() => {
    if (isStale) failed(loaded.error);
  }, [loaded.error]);
  return { data: loaded.value, load: loaded.again, loaded };
}

/** While there is nothing yet, and where nothing came. @param {{of?: import("./loaded.js").Loaded[]}} props */
export const Wait = ({ of = [] }) => html`<${Missing} of=${of.find((one) => one.error) ?? { error: null }} />`;

/** Once: a row of parts that is wider than a phone shows the one that is open. @param {HTMLElement | null} own */
const inSight = (own) => own?.parentElement?.scrollTo({ left: own.offsetLeft - own.parentElement.offsetLeft - 40 });

/** The parts of a page. @param {{base: string, sections: {path: string, name: string}[], current: string, label: string}} props */
export const Tabs = ({ base, sections, current, label }) => html`<nav class="tabs" aria-label=${label}>
  ${sections.map(({ path, name }) => html`<a key=${path} ref=${path === current ? inSight : undefined} href=${`${base}/${path}`} aria-current=${path === current ? "page" : undefined}>${name}</a>`)}
</nav>`;
