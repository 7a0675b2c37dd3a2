// Hooks that load a page's data, and the tabs of a page.

import { all, get } from "../lib/api.js";
import { html, useEffect } from "../lib/html.js";
import { failed } from "../state/notices.js";
import { Missing, useLoaded } from "./loaded.js";

/** Loads a resource; `data` is null until it has arrived. @param {string} path */
export const useData = (path) => useRead(get, path);

/** Loads all pages of a list. @param {string} path */
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

/** Shows a placeholder while data is loading, or the error. @param {{of?: import("./loaded.js").Loaded[]}} props */
export const Wait = ({ of = [] }) => html`<${Missing} of=${of.find((one) => one.error) ?? { error: null }} />`;

/**
 * Scrolls a row of tabs that is wider than the screen to the current tab. Defined once at module level: Preact calls a
 * ref again on each render if its function changes.
 * @param {HTMLElement | null} own
 */
const inSight = (own) => own?.parentElement?.scrollTo({ left: own.offsetLeft - own.parentElement.offsetLeft - 40 });

/** Links to the sections of a page. @param {{base: string, sections: {path: string, name: string}[], current: string, label: string}} props */
export const Tabs = ({ base, sections, current, label }) => html`<nav class="tabs" aria-label=${label}>
  ${sections.map(({ path, name }) => html`<a key=${path} ref=${path === current ? inSight : undefined} href=${`${base}/${path}`} aria-current=${path === current ? "page" : undefined}>${name}</a>`)}
</nav>`;
