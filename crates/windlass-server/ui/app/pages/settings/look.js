// How the pages look to this person, in this browser.

import { html } from "../../lib/html.js";
import { density, letters, sendBy, theme } from "../../state/look.js";

/** The section. */
export function Page() {
  /** @param {any} own @param {[string, string][]} choices @param {string} legend */
  const choose = (own, choices, legend) => html`<fieldset class="choices"><legend>${legend}</legend>${choices.map(([value, words]) => html`<label class="check"><input type="radio" name=${legend} checked=${own.value === value} onChange=${() => (own.value = value)} /> ${words}</label>`)}</fieldset>`;
  return html`${choose(theme, [["auto", "as the system has it"], ["light", "light"], ["dark", "dark"]], "Colours")}
    ${choose(density, [["comfortable", "comfortable"], ["compact", "compact"]], "Density")}
    ${choose(sendBy, [["enter", "Enter sends, Shift Enter begins a line"], ["ctrl", "Ctrl Enter sends, Enter begins a line"]], "Sending")}
    ${choose(letters, [["on", "on, as ? lists them"], ["off", "off: only those with Ctrl, and Escape"]], "Shortcuts of a single letter")}`;
}
