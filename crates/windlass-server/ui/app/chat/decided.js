// The approval history of a call: the verdict, the answer, the preview, and the model's original arguments if they were
// edited.

import { visible } from "../lib/exact.js";
import { because } from "../lib/gate.js";
import { html } from "../lib/html.js";
import { full } from "../lib/words.js";
import { nameOf, usePeople } from "../state/people.js";
import { me } from "../state/session.js";
import { Arguments } from "../view/arguments.js";
import { Diff, isDiff } from "../view/diff.js";

/** Labels of answers. @type {Record<string, string>} */
const WORDS = {
  approved: "Approved by",
  edited: "Arguments edited by",
  denied: "Denied by",
  replied: "Answered by",
  done: "Marked as done by",
  retried: "Retried by",
  failed: "Marked as failed by",
};

/** Names of actors that are not users, for use in a sentence. @type {Record<string, string>} */
const OTHERS = { policy: "the policy" };

/** The time of a call, the reason of its verdict, and the answer to its interrupt. @param {{call: import("../state/entry.js").Call, at: number}} props */
export const Decided = ({ call, at }) => html`<p class="quiet">${full(at)}${call.rule && ` · ${because(call.rule)}`}</p>
  ${call.answered && html`<${Answered} answered=${call.answered} />`}`;

/** @param {{answered: import("../state/entry.js").Answered}} props */
function Answered({ answered: { by, at, word, selected } }) {
  usePeople();
  const who = by === me.value?.id ? "you" : (OTHERS[by] ?? nameOf(by));
  return html`<p class="quiet" data-key="answered">${WORDS[word] ?? word} ${who}${selected ? ` with “${visible(selected)}”` : ""}, ${full(at)}</p>`;
}

/** The preview that was shown for approval. @param {{text: string}} props */
export function Previewed({ text }) {
  const shown = visible(text);
  return html`<h3>Preview</h3>${isDiff(shown) ? html`<${Diff} text=${shown} />` : html`<pre tabindex="0">${shown}</pre>`}`;
}

/**
 * The model's original arguments, if edited arguments were sent.
 * @param {{call: import("../state/entry.js").Call}} props
 */
export const Asked = ({ call }) => html`<p class="quiet">These arguments differ from the model's.</p>
  <details data-key="asked"><summary>The model's arguments</summary><${Arguments} text=${call.asked} /></details>`;
