// A form for the arguments of a call: fields from the tool's schema, or JSON.

import { isRaw, parse, written } from "../../lib/exact.js";
import { html, useState } from "../../lib/html.js";
import { Fields, valuesOf } from "../../view/fields.js";

/**
 * @param {{schema: any, busy: boolean, action: string, onSay: (values: Record<string, any>) => void, onClose?: () => void, children?: any}} props
 * `children`: further fields of the form.
 */
export function ArgumentsForm({ schema, busy, action, onSay, onClose, children }) {
  const isPlain = Object.keys(schema?.properties ?? {}).length > 0;
  const [asText, setAsText] = useState(!isPlain);
  const [values, setValues] = useState(/** @type {Record<string, any>} */ ({}));
  const [wrong, setWrong] = useState("");
  /** Reads the arguments from the form. @param {HTMLFormElement} form */
  const read = (form) => {
    const said = asText ? parse(/** @type {any} */ (form.elements.namedItem("text")).value || "{}") : valuesOf(form, schema);
    if (typeof said !== "object" || said === null || Array.isArray(said) || isRaw(said)) throw new Error("the arguments must be an object: {…}");
    return said;
  };
  /** @param {HTMLFormElement} form @param {(values: Record<string, any>) => void} then */
  const say = (form, then) => {
    try {
      const said = read(form);
      setWrong("");
      setValues(said);
      then(said);
    } catch (error) {
      setWrong(asText ? `Invalid JSON: ${error instanceof Error ? error.message : error}` : String(error instanceof Error ? error.message : error));
    }
  };
  return html`<form class="arguments" onSubmit=${(/** @type {any} */ event) => {
    event.preventDefault();
    say(event.target, onSay);
  }}>
    ${asText
      ? html`<textarea class="code" name="text" rows="6" aria-label="Arguments as JSON" spellcheck="false" defaultValue=${written(values)}></textarea>`
      : html`<${Fields} schema=${schema} values=${values} />`}
    ${children}
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    <div class="row wrap"><button type="submit" class="primary" disabled=${busy}>${action}</button>
      ${onClose && html`<button type="button" onClick=${onClose}>Close</button>`}
      ${isPlain && html`<button type="button" class="plain" onClick=${(/** @type {any} */ event) => say(event.target.form, () => setAsText(!asText))}>${asText ? "Edit as form" : "Edit as JSON"}</button>`}</div>
  </form>`;
}
