// Editing in place: the field takes the focus, and returns it to the button that opened it.

import { useLayoutEffect, useRef, useState } from "../lib/html.js";

/** `button`: ref of the button that opens the field; `field`: ref of the field. @param {boolean} [begun] whether it is initially open */
export function useEditing(begun = false) {
  const [editing, setEditing] = useState(begun);
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const was = useRef(false);
  useLayoutEffect(() => {
    if (was.current && !editing) button.current?.focus();
    was.current = editing;
  }, [editing]);
  return { editing, setEditing, button, field: focused };
}

/**
 * Defined once at module level: Preact calls a ref again on each render if its function changes.
 * @param {HTMLTextAreaElement | null} own
 */
function focused(own) {
  own?.focus();
  own?.setSelectionRange(own.value.length, own.value.length);
}
