// A test of the policy: evaluates a hypothetical call without running the tool.

import { all, post, told } from "../../lib/api.js";
import { because } from "../../lib/gate.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { failed } from "../../state/notices.js";
import { isAdmin, me } from "../../state/session.js";
import { useAll, Wait } from "../../view/data.js";
import { ArgumentsForm } from "./arguments.js";

/** @type {Record<string, [string, string]>} */
const VERDICTS = { allow: ["This call would run.", "good"], ask: ["This call would need approval.", "warning"], deny: ["This call would be denied.", "error"] };

/** @param {{text: string | null}} props `text`: the edited policy text, to test it before it is active; null if it was not edited */
export function Ask({ text }) {
  const { data, loaded } = useAll("/tools");
  const [people, setPeople] = useState(/** @type {any[]} */ ([]));
  const [call, setCall] = useState({ tool: "", user: me.value?.id ?? "", byText: false });
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState(/** @type {any} */ (null));
  const [wrong, setWrong] = useState(/** @type {{title: string, hint: string} | null} */ (null));
  useEffect(() => {
    if (isAdmin.value) all("/team/members").then((page) => setPeople(page.data.filter((/** @type {any} */ one) => one.active)), failed);
  }, []);
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  const tool = data.data.find((/** @type {any} */ one) => one.name === call.tool) ?? data.data[0];
  if (!tool) return html`<p class="empty">No tools available.</p>`;
  const byText = call.byText && text !== null;
  /** @param {Partial<typeof call>} change clears the result of the previous call */
  const choose = (change) => {
    setCall({ ...call, ...change });
    setSaid(null);
    setWrong(null);
  };
  /** @param {object} values */
  const ask = async (values) => {
    setBusy(true);
    setSaid(null);
    setWrong(null);
    const user = call.user === me.value?.id ? {} : { user: call.user };
    try {
      setSaid(await post("/policy/test", { tool: tool.name, arguments: values, ...user, ...(byText ? { policy: text } : {}) }, { once: false }));
    } catch (error) {
      setWrong(told(error));
    } finally {
      setBusy(false);
    }
  };
  return html`<div class="gate">
    <div class="row wrap">
      <label>Tool <select name="tool" value=${tool.name} onChange=${(/** @type {any} */ event) => choose({ tool: event.target.value })}>${data.data.map((/** @type {any} */ one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}</select></label>
      ${people.length > 1 && html`<label>User <select name="user" value=${call.user} onChange=${(/** @type {any} */ event) => choose({ user: event.target.value })}>${people.map((one) => html`<option key=${one.id} value=${one.id}>${one.name || one.email || one.id} (${one.role})</option>`)}</select></label>`}
      ${text !== null && html`<label>Rules <select name="rules" value=${byText ? "text" : "force"} onChange=${(/** @type {any} */ event) => choose({ byText: event.target.value === "text" })}><option value="force">active rules</option><option value="text">the policy text above</option></select></label>`}
    </div>
    <${ArgumentsForm} key=${tool.name} schema=${tool.input_schema} busy=${busy} action="Evaluate" onSay=${ask} />
    <div role="status">${said && html`<p class="note" data-tone=${VERDICTS[said.verdict]?.[1]}><strong>${VERDICTS[said.verdict]?.[0]}</strong> ${because(said.by)}${said.verdict === "ask" ? (said.yours ? " The user can approve it." : " Another user must approve it.") : ""}</p>`}
      ${wrong && html`<p class="wrong">${wrong.title}${wrong.hint && html` <small>${wrong.hint}</small>`}</p>`}</div>
  </div>`;
}
