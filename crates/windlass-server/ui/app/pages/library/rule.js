// A rule of the policy in plain words.

import { html } from "../../lib/html.js";
import { full, length } from "../../lib/words.js";

/** @type {Record<string, [string, string]>} */
const VERDICTS = { allow: ["runs", "good"], ask: ["is asked about", "warn"], deny: ["is denied", "bad"] };

/** What a rule may name, and how that is said. @type {[string, string][]} */
const NAMED = [
  ["servers", "of the server"],
  ["users", "for"],
  ["roles", "for the role"],
  ["agents", "by the agent"],
  ["workspaces", "in the workspace"],
  ["surfaces", "on the surface"],
];

/** @param {{rule: any}} props */
export function Rule({ rule }) {
  const [words, tone] = VERDICTS[rule.verdict] ?? [rule.verdict, "quiet"];
  const about = NAMED.flatMap(([name, said]) => (rule[name]?.length > 0 ? [`${said} ${rule[name].join(" or ")}`] : []));
  const when = (rule.when ?? []).map(conditionWords);
  return html`<div class="item rule"><div class="row wrap"><strong>${rule.name ?? "A rule"}</strong><span class="state" data-tone=${tone}>${words}</span></div>
    <p>${rule.tools?.length > 0 ? rule.tools.map((/** @type {string} */ tool, /** @type {number} */ at) => html`${at > 0 ? " or " : ""}<code>${tool}</code>`) : "Every tool"}${about.length > 0 ? `, ${about.join(", ")}` : ""}${when.length > 0 ? `, where ${when.join(" and ")}` : ""}.</p>
    ${termsOf(rule).map((said) => html`<p class="quiet" key=${said}>${said}</p>`)}</div>`;
}

/** @param {any} condition */
function conditionWords({ argument, is }) {
  const name = argument === "" ? "what is asked" : `“${argument.slice(1).replaceAll("/", " › ")}”`;
  if (is === "present" || is === "absent") return `${name} is ${is === "present" ? "there" : "not there"}`;
  const [kind, value] = Object.entries(is)[0] ?? ["", ""];
  /** @param {any} one */
  const shown = (one) => JSON.stringify(one);
  switch (kind) {
    case "equals":
      return `${name} is ${shown(value)}`;
    case "one_of":
      return `${name} is one of ${/** @type {any[]} */ (value).map(shown).join(", ")}`;
    case "not_one_of":
      return `${name} is none of ${/** @type {any[]} */ (value).map(shown).join(", ")}`;
    case "matches":
      return `${name} matches ${value}`;
    case "under":
      return `${name} lies in ${shown(value)}`;
    case "between": {
      const { min, max } = /** @type {any} */ (value);
      return `${name} is ${[min != null && `at least ${min}`, max != null && `at most ${max}`].filter(Boolean).join(" and ")}`;
    }
    default:
      return `${name} is ${shown(is)}`;
  }
}

/** How it is asked, and from when to when it counts. @param {any} rule @returns {string[]} */
function termsOf(rule) {
  const { quorums = [], expires_in_ms: expires, on_expiry: silence = "deny", remind_in_ms: remind, escalate_in_ms: escalate, escalate_to: others = [] } = rule.terms ?? {};
  const who = quorums.map((/** @type {any} */ one) => `${one.count === 1 ? "One" : one.count}${one.of?.length > 0 ? ` of ${one.of.join(", ")}` : one.count === 1 ? " who may answer" : " different people"}`);
  return [
    who.length > 0 && `${who.join(", and ")} must approve.`,
    expires && `After ${length(expires)} of silence it is ${silence === "approve" ? "approved" : "denied"}.`,
    remind && `They are reminded after ${length(remind)}.`,
    escalate && `After ${length(escalate)} ${others.join(", ")} is told too.`,
    rule.from && `It counts from ${full(rule.from)}.`,
    rule.until && `It counts until ${full(rule.until)}.`,
  ].filter(Boolean);
}
