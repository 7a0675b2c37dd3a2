// A form made from a JSON schema: one field per property, by its type. The fields are uncontrolled: they get an initial
// value, and a later render never overwrites what the user has typed.

import { isRaw, parse, written } from "../lib/exact.js";
import { html, useId } from "../lib/html.js";

/** Returns the type of a schema: of several types, the first that is not null. @param {any} schema */
const typeOf = (schema) => (Array.isArray(schema?.type) ? schema.type.find((/** @type {string} */ one) => one !== "null") : schema?.type);

/**
 * Returns the choices of a property with their labels, or null if the property has no choices.
 * @param {any} schema @returns {{value: any, name: string}[] | null}
 */
function choices(schema) {
  if (Array.isArray(schema?.enum)) return schema.enum.map((/** @type {any} */ value, /** @type {number} */ at) => ({ value, name: schema.enumNames?.[at] ?? String(value) }));
  const named = schema?.oneOf ?? schema?.anyOf;
  if (Array.isArray(named) && named.every((one) => "const" in one)) return named.map((one) => ({ value: one.const, name: one.title ?? String(one.const) }));
  return null;
}

/** Whether two values are the same JSON. @param {any} one @param {any} other */
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/**
 * Derives a schema from an existing value, for tools that declare no schema. A `guessed` property must not become
 * empty.
 * @param {any} value @returns {any}
 */
export function like(value) {
  if (typeof value === "boolean") return { type: "boolean", guessed: true };
  if (isRaw(value)) return { type: /^-?\d+$/.test(value.rawJSON) ? "integer" : "number", guessed: true };
  if (typeof value === "number") return { type: Number.isInteger(value) ? "integer" : "number", guessed: true };
  if (typeof value === "string") return { type: "string", guessed: true, ...(isLong(value) ? { format: "multiline" } : {}) };
  return { guessed: true };
}

/** @param {string} text */
const isLong = (text) => /[\r\n]/.test(text) || text.length > 80;

/**
 * Returns the schema of a form for existing arguments: the tool's schema for each value that matches it, otherwise a
 * derived schema.
 * @param {any} schema of the tool; null if unknown @param {Record<string, any>} values
 */
export function schemaOver(schema, values) {
  const known = schema?.properties ?? {};
  const names = new Set([...Object.keys(known), ...Object.keys(values)]);
  /** @param {string} name */
  const one = (name) => {
    const [own, value] = [known[name], values[name]];
    if (own === undefined || typeof own !== "object") return like(value);
    if (value !== undefined && !fits(own, value)) return { ...like(value), title: own.title, description: own.description };
    // The value may not have the format of a date or URL field, so show it in a text field.
    return { ...own, format: typeof value === "string" && isLong(value) ? "multiline" : undefined };
  };
  return { type: "object", required: schema?.required ?? [], properties: Object.fromEntries([...names].map((name) => [name, one(name)])) };
}

/** Returns whether the field of a schema can show a value. @param {any} schema @param {any} value */
function fits(schema, value) {
  if (choices(schema)) return true;
  switch (typeOf(schema)) {
    case "boolean":
      return typeof value === "boolean";
    case "integer":
    case "number":
      return typeof value === "number" || isRaw(value);
    case "string":
      return typeof value === "string";
    case "array":
      return choices(schema.items) === null || Array.isArray(value);
    default:
      return true;
  }
}

/** @param {{schema: any, values?: Record<string, any>, changes?: boolean}} props `changes`: whether existing values are edited; their texts may become empty */
export const Fields = ({ schema, values = {}, changes = false }) => html`<div class="fields">
  ${Object.entries(schema.properties ?? {}).map(([name, own]) => html`<${Field} key=${name} name=${name} schema=${own} value=${name in values ? values[name] : /** @type {any} */ (own).default} needed=${schema.required?.includes(name) ?? false} changes=${changes} />`)}
</div>`;

/** @param {{name: string, schema: any, value: any, needed: boolean, changes: boolean}} props */
function Field({ name, schema, value, needed, changes }) {
  const id = useId();
  const type = typeOf(schema);
  const label = schema.title ?? name;
  const isText = type === "string" || (type === undefined && typeof value === "string");
  const required = needed && !(isText && changes && !choices(schema));
  const own = { id, name: `v.${name}`, required, "aria-describedby": schema.description ? `${id}-d` : undefined };
  const some = choices(schema);
  const many = type === "array" ? choices(schema.items) : null;
  let input;
  if (type === "boolean" && !some) return html`<label class="check"><input type="checkbox" ...${{ ...own, required: false }} defaultChecked=${Boolean(value)} /> ${label}${describe(id, schema)}</label>`;
  if (many) input = html`<select multiple size=${Math.min(6, many.length)} ...${own}>${many.map((one) => html`<option value=${JSON.stringify(one.value)} selected=${Array.isArray(value) && value.some((now) => same(now, one.value))}>${one.name}</option>`)}</select>`;
  else if (some) {
    const isOther = value !== undefined && !some.some((one) => same(one.value, value));
    input = html`<select ...${own}>${!needed && html`<option value="">–</option>`}${isOther && html`<option value=${JSON.stringify(value)} selected>${written(value)} (not in the list)</option>`}${some.map((one) => html`<option value=${JSON.stringify(one.value)} selected=${same(one.value, value)}>${one.name}</option>`)}</select>`;
  } else if (type === "integer" || type === "number") input = html`<input type="number" step=${type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} defaultValue=${isRaw(value) ? value.rawJSON : value ?? ""} ...${own} />`;
  else if (isText) {
    const kind = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" }[/** @type {string} */ (schema.format)];
    input = schema.format === "multiline" || schema.maxLength > 200 ? html`<textarea rows="4" defaultValue=${value ?? ""} maxlength=${schema.maxLength} ...${own}></textarea>` : html`<input type=${kind ?? "text"} defaultValue=${value ?? ""} minlength=${schema.minLength} maxlength=${schema.maxLength} ...${own} />`;
  } else input = html`<textarea class="code" rows="3" defaultValue=${value === undefined ? "" : written(value)} placeholder="JSON" ...${own}></textarea>`;
  return html`<div class="field"><label for=${id}>${label}${needed && html`<span aria-hidden="true"> *</span>`}</label>${input}${describe(id, schema)}</div>`;
}

/** @param {string} id @param {any} schema */
const describe = (id, schema) => schema.description && html`<small id=${`${id}-d`}>${schema.description}</small>`;

/**
 * Returns whether a field still has its initial value. The browser normalizes line breaks.
 * @param {any} field @param {any} schema @param {any} value the initial value
 */
function isUntouched(field, schema, value) {
  if (field.type === "checkbox") return field.checked === field.defaultChecked;
  if (!(field instanceof HTMLSelectElement)) return field.value === String(field.defaultValue ?? "").replace(/\r\n?/g, "\n");
  if (!field.multiple) return field.value === (value === undefined ? "" : JSON.stringify(value));
  const could = (choices(schema.items) ?? []).filter((one) => Array.isArray(value) && value.some((now) => same(now, one.value)));
  return same([...field.selectedOptions].map((one) => one.value), could.map((one) => JSON.stringify(one.value)));
}

/**
 * Reads the values of a form by its schema. Throws an error with a message if a value is invalid.
 * @param {HTMLFormElement} form
 * @param {any} schema
 * @param {Record<string, any>} [begun] the initial values: an unchanged field keeps its initial value, and an unchanged
 *   field without one stays absent
 */
export function valuesOf(form, schema, begun) {
  /** @type {Record<string, any>} */
  const values = {};
  for (const [name, own] of Object.entries(schema.properties ?? {})) {
    const field = /** @type {any} */ (form.elements.namedItem(`v.${name}`));
    if (!field) continue;
    const needed = (schema.required ?? []).includes(name);
    if (begun && name in begun && isUntouched(field, own, begun[name])) values[name] = begun[name];
    else if (begun && !(name in begun) && !needed && isUntouched(field, own, /** @type {any} */ (own).default)) continue;
    else {
      const value = valueOf(field, name, own, { needed, changes: begun !== undefined });
      if (value !== undefined) values[name] = value;
    }
  }
  return values;
}

/**
 * Reads the value of a field. Returns undefined if the field is empty and optional.
 * @param {any} field @param {string} name @param {any} schema @param {{needed: boolean, changes: boolean}} how
 */
function valueOf(field, name, schema, { needed, changes }) {
  const type = typeOf(schema);
  if (field.type === "checkbox") return field.checked;
  if (field instanceof HTMLSelectElement && field.multiple) return [...field.selectedOptions].map((one) => JSON.parse(one.value));
  if (field instanceof HTMLSelectElement) return field.value === "" ? undefined : JSON.parse(field.value);
  const isText = type === "string" || (type === undefined && !field.classList.contains("code"));
  if (field.value === "" && !needed && !schema.guessed) return undefined;
  if (isText) return text(field, name, schema);
  if (field.value === "" && changes) throw new Error(`“${name}” must not be empty.`);
  if (type === "integer" || type === "number") return number(field.value);
  try {
    return parse(field.value);
  } catch {
    throw new Error(`“${name}” must be valid JSON.`);
  }
}

/**
 * Returns the text of a field, checked against the schema's pattern.
 * @param {any} field @param {string} name @param {any} schema
 */
function text(field, name, schema) {
  if (field.type === "datetime-local" && field.value !== "") return new Date(field.value).toISOString();
  // The `pattern` attribute of HTML matches the whole text, but JSON Schema matches any part of it.
  if (schema.pattern && !pattern(schema.pattern).test(field.value)) throw new Error(`“${name}” must match ${schema.pattern}`);
  return field.value;
}

/** A pattern that the browser cannot compile matches everything; the server validates too. @param {string} source */
function pattern(source) {
  try {
    return new RegExp(source, "u");
  } catch {
    return /(?:)/;
  }
}

/** Parses a number without losing digits. @param {string} text */
function number(text) {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  try {
    return parse(text);
  } catch {
    // The number is not JSON, for example `.5`.
    return value;
  }
}
