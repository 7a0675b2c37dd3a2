// A form made of a JSON schema: one field for each property, of the kind that fits. What is typed is the field's own: it
// is given what to begin with, and nothing is written into it again when the page around it is drawn anew.

import { isRaw, parse, written } from "../lib/exact.js";
import { html, useId } from "../lib/html.js";

/** @param {any} schema the type that counts, where several are allowed */
const typeOf = (schema) => (Array.isArray(schema?.type) ? schema.type.find((/** @type {string} */ one) => one !== "null") : schema?.type);

/** Choices of a property, with how they are called. @param {any} schema @returns {{value: any, name: string}[] | null} */
function choices(schema) {
  if (Array.isArray(schema?.enum)) return schema.enum.map((/** @type {any} */ value, /** @type {number} */ at) => ({ value, name: schema.enumNames?.[at] ?? String(value) }));
  const named = schema?.oneOf ?? schema?.anyOf;
  if (Array.isArray(named) && named.every((one) => "const" in one)) return named.map((one) => ({ value: one.const, name: one.title ?? String(one.const) }));
  return null;
}

/** @param {{schema: any, values?: Record<string, any>}} props */
export const Fields = ({ schema, values = {} }) => html`<div class="fields">
  ${Object.entries(schema.properties ?? {}).map(([name, own]) => html`<${Field} key=${name} name=${name} schema=${own} value=${values[name] ?? /** @type {any} */ (own).default} required=${schema.required?.includes(name) ?? false} />`)}
</div>`;

/** @param {{name: string, schema: any, value: any, required: boolean}} props */
function Field({ name, schema, value, required }) {
  const id = useId();
  const type = typeOf(schema);
  const label = schema.title ?? name;
  const own = { id, name: `v.${name}`, required, "aria-describedby": schema.description ? `${id}-d` : undefined };
  const some = choices(schema);
  const many = type === "array" ? choices(schema.items) : null;
  let input;
  if (type === "boolean") return html`<label class="check"><input type="checkbox" ...${{ ...own, required: false }} defaultChecked=${Boolean(value)} /> ${label}${describe(id, schema)}</label>`;
  if (many) input = html`<select multiple size=${Math.min(6, many.length)} ...${own}>${many.map((one) => html`<option value=${JSON.stringify(one.value)} selected=${value?.includes(one.value)}>${one.name}</option>`)}</select>`;
  else if (some) input = html`<select ...${own}>${!required && html`<option value="">–</option>`}${some.map((one) => html`<option value=${JSON.stringify(one.value)} selected=${one.value === value}>${one.name}</option>`)}</select>`;
  else if (type === "integer" || type === "number") input = html`<input type="number" step=${type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} defaultValue=${isRaw(value) ? value.rawJSON : value ?? ""} ...${own} />`;
  else if (type === "string" || type === undefined && typeof value === "string") {
    const kind = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" }[/** @type {string} */ (schema.format)];
    input = schema.format === "multiline" || schema.maxLength > 200 ? html`<textarea rows="4" defaultValue=${value ?? ""} maxlength=${schema.maxLength} ...${own}></textarea>` : html`<input type=${kind ?? "text"} defaultValue=${value ?? ""} minlength=${schema.minLength} maxlength=${schema.maxLength} pattern=${schema.pattern} ...${own} />`;
  } else input = html`<textarea class="code" rows="3" defaultValue=${value === undefined ? "" : written(value)} placeholder="JSON" ...${own}></textarea>`;
  return html`<div class="field"><label for=${id}>${label}${required && html`<span aria-hidden="true"> *</span>`}</label>${input}${describe(id, schema)}</div>`;
}

/** @param {string} id @param {any} schema */
const describe = (id, schema) => schema.description && html`<small id=${`${id}-d`}>${schema.description}</small>`;

/** Whether nobody has changed what a field began with; the browser writes line breaks its own way. @param {any} field */
const isUntouched = (field) => (field.type === "checkbox" ? field.checked === field.defaultChecked : field.value === String(field.defaultValue ?? "").replace(/\r\n?/g, "\n"));

/**
 * What a form says, by its schema. Fails with words where something is no value.
 * @param {HTMLFormElement} form
 * @param {any} schema
 * @param {Record<string, any>} [begun] values that the form began with: what was not changed stays as it is there, and an
 *   empty field is an empty text, or no value
 */
export function valuesOf(form, schema, begun) {
  /** @type {Record<string, any>} */
  const values = {};
  for (const [name, own] of Object.entries(schema.properties ?? {})) {
    const field = /** @type {any} */ (form.elements.namedItem(`v.${name}`));
    if (!field) continue;
    const type = typeOf(own);
    const isText = type === "string" || (type === undefined && !field.classList?.contains("code"));
    if (begun && name in begun && isUntouched(field)) values[name] = begun[name];
    else if (begun && field.value === "" && !isText) throw new Error(`“${name}” is empty; write a value.`);
    else if (begun && isText) values[name] = field.value;
    else if (type === "boolean") values[name] = field.checked;
    else if (field instanceof HTMLSelectElement && field.multiple) values[name] = [...field.selectedOptions].map((one) => JSON.parse(one.value));
    else if (field instanceof HTMLSelectElement) field.value !== "" && (values[name] = JSON.parse(field.value));
    else if (field.value === "" && !(schema.required ?? []).includes(name)) continue;
    else if (type === "integer" || type === "number") values[name] = number(field.value);
    else if (isText) values[name] = field.type === "datetime-local" ? new Date(field.value).toISOString() : field.value;
    else {
      try {
        values[name] = parse(field.value);
      } catch {
        throw new Error(`“${name}” is no JSON.`);
      }
    }
  }
  return values;
}

/** A number as it was typed. @param {string} text */
function number(text) {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  try {
    return parse(text);
  } catch {
    // Such as `.5`, which is no JSON.
    return value;
  }
}
