// A field in the place of what it changes: it has the focus, and gives it back to the button that opened it.

import { useLayoutEffect, useRef, useState } from "../lib/html.js";

/** `button`: for the button that opens it; `field`: for the field. @param {boolean} [begun] whether it is open from the beginning */
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

/** Once: a reference that is another function each time is called at each drawing. @param {HTMLTextAreaElement | null} own */
function focused(own) {
  own?.focus();
  own?.setSelectionRange(own.value.length, own.value.length);
}
