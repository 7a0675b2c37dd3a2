// What decided about a call and who did, what people were shown of it, and what the model had asked before somebody
// changed it.

import { visible } from "../lib/exact.js";
import { because } from "../lib/gate.js";
import { html } from "../lib/html.js";
import { full } from "../lib/words.js";
import { nameOf, usePeople } from "../state/people.js";
import { me } from "../state/session.js";
import { Arguments } from "../view/arguments.js";
import { Diff, isDiff } from "../view/diff.js";

/** What somebody said to a call, by its word. @type {Record<string, string>} */
const WORDS = {
  approved: "Approved by",
  edited: "Its arguments were changed by",
  denied: "Denied by",
  replied: "Answered by",
  done: "Said to be done by",
  retried: "Begun again by",
  failed: "Given up by",
};

/** Those who are no people, in a sentence. @type {Record<string, string>} */
const OTHERS = { policy: "the policy" };

/** When a call was, who answered for it, and what the gate went by. @param {{call: import("../state/entry.js").Call, at: number}} props */
export const Decided = ({ call, at }) => html`<p class="quiet">${full(at)}${call.rule && ` · ${because(call.rule)}`}</p>
  ${call.answered && html`<${Answered} answered=${call.answered} />`}`;

/** @param {{answered: import("../state/entry.js").Answered}} props */
function Answered({ answered: { by, at, word, selected } }) {
  usePeople();
  const who = by === me.value?.id ? "you" : (OTHERS[by] ?? nameOf(by));
  return html`<p class="quiet" data-key="answered">${WORDS[word] ?? word} ${who}${selected ? ` with “${visible(selected)}”` : ""}, ${full(at)}</p>`;
}

/** What people were shown that a call would do. @param {{text: string}} props */
export function Previewed({ text }) {
  const shown = visible(text);
  return html`<h3>What it was to do</h3>${isDiff(shown) ? html`<${Diff} text=${shown} />` : html`<pre tabindex="0">${shown}</pre>`}`;
}

/** What the model had asked, where something else was sent. @param {{call: import("../state/entry.js").Call}} props */
export const Asked = ({ call }) => html`<p class="quiet">These are not the arguments that the model asked for.</p>
  <details data-key="asked"><summary>What the model asked</summary><${Arguments} text=${call.asked} /></details>`;
