// A hook that loads data, and the placeholder that is shown during the load or after a failure.

import { isAborted, signedIn, told } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";

/**
 * @typedef {{value: any, error: unknown, again: () => void}} Loaded
 * `value` is null until it has loaded; during a reload it keeps the previous value.
 */

/**
 * Loads a value, and loads it again if its dependencies change.
 * @param {(stop: AbortSignal) => Promise<any>} read @param {unknown[]} [of] @returns {Loaded}
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

/** A spinner, or the error with a retry button. @param {{of: Loaded}} props */
export function Missing({ of }) {
  if (!of.error) return html`<div aria-busy="true"><span class="spinner"></span></div>`;
  const { title, hint } = told(of.error);
  return html`<div class="empty" role="alert"><h2>Failed to load</h2><p>${title}</p>${hint && html`<p>${hint}</p>`}
    <p><button type="button" onClick=${of.again}>Try again</button></p></div>`;
}
