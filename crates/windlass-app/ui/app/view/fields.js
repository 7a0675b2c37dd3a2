// A form made of a JSON schema: one field for each property, of the kind that fits. What is typed is the field's own: it
// is given what to begin with, and nothing is written into it again when the page around it is drawn anew.

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
  else if (type === "integer" || type === "number") input = html`<input type="number" step=${type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} defaultValue=${value ?? ""} ...${own} />`;
  else if (type === "string" || type === undefined && typeof value === "string") {
    const kind = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" }[/** @type {string} */ (schema.format)];
    input = schema.format === "multiline" || schema.maxLength > 200 ? html`<textarea rows="4" defaultValue=${value ?? ""} maxlength=${schema.maxLength} ...${own}></textarea>` : html`<input type=${kind ?? "text"} defaultValue=${value ?? ""} minlength=${schema.minLength} maxlength=${schema.maxLength} pattern=${schema.pattern} ...${own} />`;
  } else input = html`<textarea class="code" rows="3" defaultValue=${value === undefined ? "" : JSON.stringify(value, null, 2)} placeholder="JSON" ...${own}></textarea>`;
  return html`<div class="field"><label for=${id}>${label}${required && html`<span aria-hidden="true"> *</span>`}</label>${input}${describe(id, schema)}</div>`;
}

/** @param {string} id @param {any} schema */
const describe = (id, schema) => schema.description && html`<small id=${`${id}-d`}>${schema.description}</small>`;

/** What a form says, by its schema. Fails with words where something is no value. @param {HTMLFormElement} form @param {any} schema */
export function valuesOf(form, schema) {
  /** @type {Record<string, any>} */
  const values = {};
  for (const [name, own] of Object.entries(schema.properties ?? {})) {
    const field = /** @type {any} */ (form.elements.namedItem(`v.${name}`));
    if (!field) continue;
    const type = typeOf(own);
    if (type === "boolean") values[name] = field.checked;
    else if (field instanceof HTMLSelectElement && field.multiple) values[name] = [...field.selectedOptions].map((one) => JSON.parse(one.value));
    else if (field instanceof HTMLSelectElement) field.value !== "" && (values[name] = JSON.parse(field.value));
    else if (field.value === "" && !(schema.required ?? []).includes(name)) continue;
    else if (type === "integer" || type === "number") values[name] = Number(field.value);
    else if (type === "string" || !field.classList.contains("code")) values[name] = field.type === "datetime-local" ? new Date(field.value).toISOString() : field.value;
    else {
      try {
        values[name] = JSON.parse(field.value);
      } catch {
        throw new Error(`“${name}” is no JSON.`);
      }
    }
  }
  return values;
}
