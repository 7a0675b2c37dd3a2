// A JSON value as a collapsible tree; JSON inside of strings is expanded too. (SK-U4)

import { embedded, isRaw, visible } from "../lib/exact.js";
import { html, useMemo, useState } from "../lib/html.js";

/** Number of members that are rendered per step. */
const MEMBERS = 100;

/** @param {{value: any, name?: string, depth?: number}} props */
export function Tree({ value: given, name, depth = 0 }) {
  const inner = useMemo(() => (typeof given === "string" ? embedded(given) : null), [given]);
  const value = inner ?? given;
  const [open, setOpen] = useState(depth < 2);
  const [shown, setShown] = useState(MEMBERS);
  const label = name === undefined ? null : html`<span class="key">${visible(name)}: </span>`;
  if (isRaw(value)) return html`<div class="leaf">${label}<span data-type="number">${value.rawJSON}</span></div>`;
  if (value === null || typeof value !== "object") return html`<div class="leaf">${label}<span data-type=${value === null ? "null" : typeof value}>${typeof value === "string" ? visible(value) : String(value)}</span></div>`;
  const members = Object.entries(value);
  const brackets = Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`;
  return html`<details class=${depth === 0 ? "tree" : "branch"} open=${open} onToggle=${(/** @type {any} */ event) => {
    event.stopPropagation();
    setOpen(event.target.open);
  }}>
    <summary>${label}<span class="quiet">${brackets}${inner === null ? "" : " JSON in a string"}</span></summary>
    ${open && html`<div class="members">${members.slice(0, shown).map(([key, member]) => html`<${Tree} key=${key} name=${key} value=${member} depth=${depth + 1} />`)}
      ${members.length > shown && html`<button type="button" class="plain" onClick=${() => setShown(shown + MEMBERS)}>${members.length - shown} more</button>`}</div>`}
  </details>`;
}
