// The members of the workspace for administrators: roles, credit, and invitations. (SK-U13)

import { get, patch, post, remove } from "../../lib/api.js";
import { html, useState } from "../../lib/html.js";
import { full, money } from "../../lib/words.js";
import { attempt, done, failed } from "../../state/notices.js";
import { me } from "../../state/session.js";
import { useAll, Wait } from "../../view/data.js";
import { Confirm, Dialog } from "../../view/dialog.js";
import { Icon } from "../../view/icon.js";

/** The roles with their descriptions. @type {[string, string][]} */
const ROLES = [
  ["member", "starts runs and answers their requests"],
  ["viewer", "reads shared conversations, cannot start runs"],
  ["admin", "full access to this workspace"],
];

export function Page() {
  const { data, load, loaded } = useAll("/team/members");
  const invites = useAll("/team/invites");
  /** The open dialog, and the member or link that it shows. */
  const [doing, setDoing] = useState(/** @type {{what: "" | "add" | "credit" | "leave" | "link", of: any}} */ ({ what: "", of: null }));
  const end = () => setDoing({ what: "", of: null });
  if (!data) return html`<${Wait} of=${[loaded]} />`;
  /** @param {any} member @param {object} change Rejected if the member has changed since it was read. */
  const change = (member, change) =>
    attempt(async () => {
      const now = await get(`/team/members/${member.id}`);
      await patch(`/team/members/${member.id}`, change, { etag: now.etag });
    }).then(load);
  /** @param {any} event */
  const invite = (event) => {
    event.preventDefault();
    const form = event.target;
    const { email, role } = form.elements;
    attempt(async () => {
      const link = await post("/team/invites", { role: role.value, ...(email.value ? { email: email.value } : {}) }, { once: false });
      setDoing({ what: "link", of: link });
      invites.load();
      form.reset();
    });
  };
  /** @param {any} member */
  const reset = (member) => attempt(async () => setDoing({ what: "link", of: await post(`/team/members/${member.id}/reset`, {}, { once: false }) }));
  return html`<div class="table" tabindex="0"><table class="list"><thead><tr><th>Member</th><th>Role</th><th>Credit</th><th><span class="hidden">Actions</span></th></tr></thead><tbody>
      ${data.data.map((/** @type {any} */ member) => html`<tr key=${member.id} data-off=${!member.active}><td>${member.name || member.email || member.id}<br /><span class="quiet">${member.name ? (member.email ?? "") : ""}${member.active ? "" : " (inactive)"}</span></td>
        <td><${RoleOf} label=${`Role of ${member.name || member.email}`} value=${member.role} disabled=${member.id === me.value?.id || !member.active} onChoose=${(/** @type {string} */ role) => change(member, { role })} /></td>
        <td>${member.credit_usd == null ? "no limit" : money(member.credit_usd)} <button type="button" class="plain" aria-label=${`Credit of ${member.name || member.email}`} onClick=${() => setDoing({ what: "credit", of: member })}><${Icon} name="edit" size=${15} /></button></td>
        <td><div class="row wrap">${member.active && member.email && html`<button type="button" onClick=${() => reset(member)}>Reset password</button>`}
          ${member.id !== me.value?.id && (member.active ? html`<button type="button" class="danger" onClick=${() => setDoing({ what: "leave", of: member })}>Remove</button>` : html`<button type="button" onClick=${() => change(member, { active: true })}>Reactivate</button>`)}</div></td></tr>`)}</tbody></table></div>
    <p><button type="button" onClick=${() => setDoing({ what: "add", of: null })}>Add a member with a password</button></p>
    <h2>Invite a member</h2><p class="quiet">Invited members choose their own password.</p>
    <form class="row wrap" onSubmit=${invite}><input name="email" type="email" placeholder="Email (optional)" aria-label="Email" /><${RoleOf} name="role" label="Role" /><button type="submit" class="primary">Create link</button></form>
    ${invites.data?.data.map((/** @type {any} */ one) => html`<div class="item row wrap" key=${one.id}><span class="fill">${one.email ?? "Anyone with the link"}, as ${one.role} <span class="quiet">expires ${full(one.expires_at)}</span></span><button type="button" onClick=${() => attempt(() => remove(`/team/invites/${one.id}`).then(invites.load))}>Revoke</button></div>`)}
    ${doing.what === "add" && html`<${Add} onClose=${end} onAdded=${load} />`}
    ${doing.what === "credit" && html`<${Credit} member=${doing.of} onClose=${end} onSet=${(/** @type {number | null} */ credit) => change(doing.of, { credit_usd: credit })} />`}
    ${doing.what === "link" && html`<${Link} link=${doing.of} onClose=${end} />`}
    ${doing.what === "leave" && html`<${Confirm} title=${`Remove ${doing.of.name || doing.of.email}?`} text="Their sessions and API keys end immediately, and they can no longer sign in. Their conversations are kept. You can reactivate them later." action="Remove" onClose=${end} onDo=${() => attempt(() => remove(`/team/members/${doing.of.id}`).then(load))} />`}`;
}

/** @param {{label: string, name?: string, value?: string, disabled?: boolean, onChoose?: (role: string) => void}} props */
const RoleOf = ({ label, name, value, disabled, onChoose }) => html`<select name=${name} aria-label=${label} value=${value} disabled=${disabled} onChange=${(/** @type {any} */ event) => onChoose?.(event.target.value)}>
  ${ROLES.map(([role, words]) => html`<option key=${role} value=${role} title=${words}>${role}</option>`)}</select>`;

/** @param {{onClose: () => void, onAdded: () => void}} props */
function Add({ onClose, onAdded }) {
  /** @param {any} event */
  const add = (event) => {
    event.preventDefault();
    const { email, name, password, role } = event.target.elements;
    attempt(async () => {
      // Send no idempotency key: the server must not store the password with the request.
      await post("/team/members", { email: email.value, name: name.value, password: password.value, role: role.value }, { once: false });
      onAdded();
      onClose();
      done(`${email.value} can now sign in`);
    });
  };
  return html`<${Dialog} title="Add a member" onClose=${onClose}><form class="stack" onSubmit=${add}>
    <label>Email <input name="email" type="email" required autocomplete="off" autofocus /></label><label>Name <input name="name" maxlength="100" autocomplete="off" /></label>
    <label>Role <select name="role">${ROLES.map(([role, words]) => html`<option key=${role} value=${role}>${role}: ${words}</option>`)}</select></label>
    <label>Password <input name="password" type="password" required minlength="8" autocomplete="new-password" /></label><p class="quiet">Send them the password. They can change it in their settings.</p>
    <div class="row end"><button type="button" onClick=${onClose}>Cancel</button><button type="submit" class="primary">Add</button></div></form></${Dialog}>`;
}

/** @param {{member: any, onClose: () => void, onSet: (credit: number | null) => void}} props */
const Credit = ({ member, onClose, onSet }) => html`<${Dialog} title=${`Credit of ${member.name || member.email}`} onClose=${onClose}><form class="stack" onSubmit=${(/** @type {any} */ event) => {
  event.preventDefault();
  const text = event.target.elements.credit.value;
  onSet(text === "" ? null : Number(text));
  onClose();
}}><label>Total credit (US dollars) <input name="credit" type="number" min="0" max="1000000000" step="any" defaultValue=${member.credit_usd ?? ""} placeholder="no limit" autofocus /></label>
  <p class="quiet">Leave empty for no limit other than the workspace's budgets.</p>
  <div class="row end"><button type="button" onClick=${onClose}>Cancel</button><button type="submit" class="primary">Save</button></div></form></${Dialog}>`;

/** @param {{link: any, onClose: () => void}} props */
const Link = ({ link, onClose }) => html`<${Dialog} title="One-time link" onClose=${onClose}><p>Send this link to the person. It can be used once, until ${full(link.expires_at)}.</p><pre tabindex="0">${link.url}</pre>
  <div class="row end"><button type="button" class="primary" autofocus onClick=${() => navigator.clipboard.writeText(link.url).then(onClose, failed)}>Copy and close</button></div></${Dialog}>`;
