// Editing the arguments of a pending call: in a form made from the tool's schema, or as JSON.

import { isRaw, parse, written } from "../lib/exact.js";
import { get } from "../lib/api.js";
import { html, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { Fields, schemaOver, valuesOf } from "./fields.js";
import { useLoaded } from "./loaded.js";

/** @param {{tool: string | null, args: string, busy: boolean, onCancel: () => void, onSave: (values: object) => void}} props */
export function Edit({ tool, args, busy, onCancel, onSave }) {
  // The server has no schema of a removed tool, or of a tool that only one run has: the form is then derived from the
  // values.
  const read = useLoaded((stop) => (tool ? get(`/tools/${encodeURIComponent(tool)}`, { stop }).catch(() => ({})) : Promise.resolve({})), [tool]);
  if (!read.value) return html`<div aria-busy="true"><span class="spinner"></span></div>`;
  return html`<${Form} known=${read.value.input_schema ?? null} args=${args} busy=${busy} onCancel=${onCancel} onSave=${onSave} />`;
}

/** @param {{known: any, args: string, busy: boolean, onCancel: () => void, onSave: (values: object) => void}} props */
function Form({ known, args, busy, onCancel, onSave }) {
  const own = useRef(/** @type {HTMLFormElement | null} */ (null));
  const [wrong, setWrong] = useState("");
  // The form appears only after the tool has loaded: take the focus only if the user has not moved it.
  useLayoutEffect(() => {
    const active = document.activeElement;
    if (active !== document.body && active !== own.current?.closest(".ask")) return;
    const first = own.current?.querySelector("input, select, textarea");
    if (first instanceof HTMLElement) first.focus();
  }, []);
  const [now, setNow] = useState(args);
  /** @type {Record<string, any>} */
  let values = {};
  try {
    values = parse(now);
  } catch {
    // Arguments that are not an object are edited as text.
  }
  const isObject = typeof values === "object" && values !== null && !Array.isArray(values) && !isRaw(values);
  const schema = schemaOver(known, isObject ? values : {});
  // A form field would hide invisible characters; the JSON text shows them as escapes.
  const [asText, setAsText] = useState(!isObject || Object.keys(schema.properties).length === 0 || /\\u[0-9a-f]{4}/.test(args));
  /** Passes the form's values to `then` if they are valid arguments. @param {any} form @param {(next: object) => void} then */
  const read = (form, then) => {
    try {
      const next = asText ? parse(form.elements.text.value) : valuesOf(form, schema, values);
      if (typeof next !== "object" || next === null || Array.isArray(next) || isRaw(next)) throw new Error("the arguments must be an object: {…}");
      setWrong("");
      then(next);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      setWrong(asText ? `Invalid JSON: ${why}` : why);
    }
  };
  /** @param {any} event */
  const save = (event) => {
    event.preventDefault();
    read(event.target, onSave);
  };
  /** @param {any} event */
  const turn = (event) =>
    read(event.target.form, (next) => {
      setNow(written(next));
      setAsText(!asText);
    });
  return html`<form class="edit" ref=${own} onSubmit=${save}>
    ${asText ? html`<textarea class="code" name="text" rows=${Math.min(24, now.split("\n").length + 1)} aria-label="Arguments as JSON" defaultValue=${now} spellcheck="false"></textarea>` : html`<${Fields} schema=${schema} values=${values} changes />`}
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    <div class="row wrap"><button type="submit" class="primary" disabled=${busy}>Save and review</button><button type="button" onClick=${onCancel}>Back</button>
      <button type="button" class="plain" onClick=${turn}>${asText ? "Edit as form" : "Edit as JSON"}</button></div>
  </form>`;
}
