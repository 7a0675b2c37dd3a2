// What a page reads when it opens. Where that fails, it says so, and tries again when it is asked to.

import { isAborted, signedIn, told } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";

/**
 * @typedef {{value: any, error: unknown, again: () => void}} Loaded
 * `value` is null until it is there; the one before stays while the next is read.
 */

/**
 * Reads something, and again when what it depends on changes.
 * @param {(stop: AbortSignal) => Promise<any>} read
 * @param {unknown[]} [of]
 * @returns {Loaded}
 */
export function useLoaded(read, of = []) {
  const [state, setState] = useState({ value: /** @type {any} */ (null), error: /** @type {unknown} */ (null) });
  const [turn, setTurn] = useState(0);
  const again = () => {
    setState((before) => ({ ...before, error: null }));
    setTurn((turn) => turn + 1);
  };
  useEffect(() => {
    const stop = new AbortController();
    read(stop.signal).then(
      (value) => stop.signal.aborted || setState({ value, error: null }),
      (error) => {
        if (stop.signal.aborted || isAborted(error)) return;
        setState((before) => ({ ...before, error }));
        if (error.status === 401) signedIn(stop.signal).then(again, () => {});
      },
    );
    return () => stop.abort();
  }, [...of, turn]);
  return { ...state, again };
}

/** What is shown in place of what is not there. @param {{of: Loaded}} props */
export function Missing({ of }) {
  if (!of.error) return html`<div aria-busy="true"><span class="spinner"></span></div>`;
  const { title, hint } = told(of.error);
  return html`<div class="empty" role="alert"><h2>It could not be loaded</h2><p>${title}</p>${hint && html`<p>${hint}</p>`}
    <p><button type="button" onClick=${of.again}>Try again</button></p></div>`;
}
