// A native modal dialog: it traps the focus and closes with Escape.

import { html, signal, useEffect, useRef } from "../lib/html.js";
import { Notices } from "./notices.js";

/** The open dialogs, topmost last. */
export const dialogs = signal(/** @type {HTMLDialogElement[]} */ ([]));

/** @param {{title: string, onClose: () => void, children?: any, wide?: boolean}} props */
export function Dialog({ title, onClose, children, wide }) {
  const own = useRef(/** @type {HTMLDialogElement | null} */ (null));
  /**
   * Whether the pointer was pressed on the backdrop: a text selection may end on the backdrop without closing the
   * dialog.
   */
  const beside = useRef(false);
  useEffect(() => {
    const dialog = own.current;
    if (!dialog) return undefined;
    dialog.showModal();
    dialogs.value = [...dialogs.value, dialog];
    return () => {
      dialogs.value = dialogs.value.filter((one) => one !== dialog);
      dialog.close();
    };
  }, []);
  const isOnTop = dialogs.value.at(-1) === own.current && own.current !== null;
  return html`<dialog ref=${own} class=${wide ? "wide" : ""} aria-label=${title} onCancel=${(/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  }} onPointerDown=${(/** @type {PointerEvent} */ event) => (beside.current = event.target === own.current)} onClick=${(/** @type {MouseEvent} */ event) => event.target === own.current && beside.current && onClose()}>
    <div class="dialog-body"><h2>${title}</h2>${children}</div>
    <${Notices} here=${isOnTop} />
  </dialog>`;
}

/**
 * A dialog that asks for confirmation of an action that cannot be undone.
 * @param {{title: string, text: string, action: string, keep?: string, onDo: () => void, onClose: () => void}} props
 */
export const Confirm = ({ title, text, action, keep = "Cancel", onDo, onClose }) => html`<${Dialog} title=${title} onClose=${onClose}>
  <p>${text}</p>
  <div class="row end">
    <button type="button" onClick=${onClose} autofocus>${keep}</button>
    <button type="button" class="danger" onClick=${() => {
      onClose();
      onDo();
    }}>${action}</button>
  </div>
</${Dialog}>`;
