// A dialog of the browser's own: it keeps the focus inside and closes with Escape.

import { html, useEffect, useRef } from "../lib/html.js";

/** @param {{title: string, onClose: () => void, children?: any, wide?: boolean}} props */
export function Dialog({ title, onClose, children, wide }) {
  const own = useRef(/** @type {HTMLDialogElement | null} */ (null));
  /** Whether the button went down beside the dialog: who selects a text in it may let go outside. */
  const beside = useRef(false);
  useEffect(() => {
    const dialog = own.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return html`<dialog ref=${own} class=${wide ? "wide" : ""} aria-label=${title} onCancel=${(/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  }} onPointerDown=${(/** @type {PointerEvent} */ event) => (beside.current = event.target === own.current)} onClick=${(/** @type {MouseEvent} */ event) => event.target === own.current && beside.current && onClose()}>
    <div class="dialog-body"><h2>${title}</h2>${children}</div>
  </dialog>`;
}

/**
 * Asks before something that cannot be taken back.
 * @param {{title: string, text: string, action: string, keep?: string, onDo: () => void, onClose: () => void}} props
 */
export const Confirm = ({ title, text, action, keep = "Keep it", onDo, onClose }) => html`<${Dialog} title=${title} onClose=${onClose}>
  <p>${text}</p>
  <div class="row end">
    <button type="button" onClick=${onClose} autofocus>${keep}</button>
    <button type="button" class="danger" onClick=${() => {
      onClose();
      onDo();
    }}>${action}</button>
  </div>
</${Dialog}>`;
