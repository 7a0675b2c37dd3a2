// A policy rule in plain English.

import { html } from "../../lib/html.js";
import { full, length } from "../../lib/words.js";

/** @type {Record<string, [string, string]>} */
const VERDICTS = { allow: ["allow", "good"], ask: ["require approval", "warn"], deny: ["deny", "bad"] };

/** Fields of a rule that select calls, with their phrases. @type {[string, string][]} */
const NAMED = [
  ["servers", "from server"],
  ["users", "for user"],
  ["roles", "for role"],
  ["agents", "by agent"],
  ["workspaces", "in workspace"],
  ["surfaces", "on surface"],
];

/** @param {{rule: any}} props */
export function Rule({ rule }) {
  const [words, tone] = VERDICTS[rule.verdict] ?? [rule.verdict, "quiet"];
  const about = NAMED.flatMap(([name, said]) => (rule[name]?.length > 0 ? [`${said} ${rule[name].join(" or ")}`] : []));
  const when = (rule.when ?? []).map(conditionWords);
  return html`<div class="item rule"><div class="row wrap"><strong>${rule.name ?? "Unnamed rule"}</strong><span class="state" data-tone=${tone}>${words}</span></div>
    <p>${rule.tools?.length > 0 ? rule.tools.map((/** @type {string} */ tool, /** @type {number} */ at) => html`${at > 0 ? " or " : ""}<code>${tool}</code>`) : "Every tool"}${about.length > 0 ? `, ${about.join(", ")}` : ""}${when.length > 0 ? `, if ${when.join(" and ")}` : ""}.</p>
    ${termsOf(rule).map((said) => html`<p class="quiet" key=${said}>${said}</p>`)}</div>`;
}

/** @param {any} condition */
function conditionWords({ argument, is }) {
  const name = argument === "" ? "the arguments object" : `“${argument.slice(1).replaceAll("/", " › ")}”`;
  if (is === "present" || is === "absent") return `${name} is ${is === "present" ? "present" : "absent"}`;
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
      return `${name} is in ${shown(value)}`;
    case "between": {
      const { min, max } = /** @type {any} */ (value);
      return `${name} is ${[min != null && `at least ${min}`, max != null && `at most ${max}`].filter(Boolean).join(" and ")}`;
    }
    default:
      return `${name} is ${shown(is)}`;
  }
}

/** Returns the terms of approval, and the period in which the rule applies. @param {any} rule @returns {string[]} */
function termsOf(rule) {
  const { quorums = [], expires_in_ms: expires, on_expiry: silence = "deny", remind_in_ms: remind, escalate_in_ms: escalate, escalate_to: others = [] } = rule.terms ?? {};
  const who = quorums.map((/** @type {any} */ one) => `${one.count === 1 ? "One" : one.count}${one.of?.length > 0 ? ` of ${one.of.join(", ")}` : one.count === 1 ? " authorized user" : " different users"}`);
  return [
    who.length > 0 && `${who.join(", and ")} must approve.`,
    expires && `After ${length(expires)} without an answer, the call is ${silence === "approve" ? "approved" : "denied"}.`,
    remind && `Sends a reminder after ${length(remind)}.`,
    escalate && `Also notifies ${others.join(", ")} after ${length(escalate)}.`,
    rule.from && `Applies from ${full(rule.from)}.`,
    rule.until && `Applies until ${full(rule.until)}.`,
  ].filter(Boolean);
}
