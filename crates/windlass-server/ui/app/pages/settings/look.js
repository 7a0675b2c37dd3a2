// Appearance and keyboard preferences, stored in this browser.

import { html } from "../../lib/html.js";
import { density, letters, sendBy, theme } from "../../state/look.js";

export function Page() {
  /** @param {any} own @param {[string, string][]} choices @param {string} legend */
  const choose = (own, choices, legend) => html`<fieldset class="choices"><legend>${legend}</legend>${choices.map(([value, words]) => html`<label class="check"><input type="radio" name=${legend} checked=${own.value === value} onChange=${() => (own.value = value)} /> ${words}</label>`)}</fieldset>`;
  return html`${choose(theme, [["auto", "System"], ["light", "Light"], ["dark", "Dark"]], "Theme")}
    ${choose(density, [["comfortable", "Comfortable"], ["compact", "Compact"]], "Density")}
    ${choose(sendBy, [["enter", "Enter sends, Shift Enter starts a new line"], ["ctrl", "Ctrl Enter sends, Enter starts a new line"]], "Sending messages")}
    ${choose(letters, [["on", "On (press ? for the list)"], ["off", "Off (only Ctrl shortcuts and Escape)"]], "Single-letter shortcuts")}`;
}
