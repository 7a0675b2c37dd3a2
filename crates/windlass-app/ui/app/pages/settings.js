// A person's own settings, and those of their team.

import { get, patch, post, put, remove } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { place } from "../lib/route.js";
import { full, money, when } from "../lib/words.js";
import { AUTO_RUN } from "../chat/auto_run.js";
import { density, letters, sendBy, theme } from "../state/look.js";
import { attempt, done, failed } from "../state/notices.js";
import { find, isAdmin, me, signOut } from "../state/session.js";
import { Confirm, Dialog } from "../view/dialog.js";

/** @type {[string, string, any, boolean][]} */
const SECTIONS = [
  ["profile", "Profile", Profile, false],
  ["asking", "When it asks", Asking, false],
  ["keys", "API keys", Keys, false],
  ["sessions", "Sessions", SessionList, false],
  ["team", "Team", Team, true],
  ["limits", "Limits", Limits, false],
  ["look", "Appearance", Look, false],
];

/** The page. */
export function Page() {
  const section = place.value.parts[1] ?? "profile";
  const shown = SECTIONS.filter(([, , , admins]) => !admins || isAdmin.value);
  const View = shown.find(([path]) => path === section)?.[2] ?? Profile;
  return html`<div class="page"><h1>Settings</h1>
    <nav class="tabs" aria-label="Parts of the settings">${shown.map(([path, name]) => html`<a href=${`/settings/${path}`} aria-current=${path === section ? "page" : undefined}>${name}</a>`)}</nav>
    <${View} key=${section} /></div>`;
}

/** @param {string} path */
function useList(path) {
  const [rows, setRows] = useState(/** @type {any[] | null} */ (null));
  const load = () => get(path).then((page) => setRows(page.data), failed);
  useEffect(() => {
    load();
  }, []);
  return { rows, load };
}

function Profile() {
  /** @param {any} event */
  const save = (event) => {
    event.preventDefault();
    const { name } = event.target.elements;
    attempt(async () => {
      await patch("/auth/me", { name: name.value });
      await find();
      done("Saved.");
    });
  };
  /** @param {any} event */
  const change = (event) => {
    event.preventDefault();
    const { old, fresh } = event.target.elements;
    attempt(async () => {
      await put("/auth/password", { ...(old ? { current_password: old.value } : {}), new_password: fresh.value });
      event.target.reset();
      await find();
      done("The password is changed; all other sessions have ended.");
    });
  };
  return html`<form class="stack" onSubmit=${save}><label>Name <input name="name" maxlength="100" defaultValue=${me.value?.name ?? ""} /></label>
      <p class="quiet">${me.value?.email ?? "no e-mail address"}, ${me.value?.role} in “${me.value?.workspace}”</p><div class="row"><button type="submit" class="primary">Save</button></div></form>
    <h2>Password</h2>
    <form class="stack" onSubmit=${change}>${me.value?.has_password && html`<label>The one now <input name="old" type="password" autocomplete="current-password" required /></label>`}
      <label>A new one <input name="fresh" type="password" autocomplete="new-password" minlength="8" required /></label><div class="row"><button type="submit">Change it</button></div></form>
    <h2>Sign out</h2><p><button type="button" onClick=${() => attempt(signOut)}>Sign out of this browser</button></p>`;
}

function Asking() {
  const [mode, setMode] = useState(/** @type {any} */ (null));
  const { rows, load } = useList("/allowlist");
  const [tools, setTools] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    get("/auto-run").then(setMode, failed);
    get("/tools?limit=200").then((page) => setTools(page.data), () => {});
  }, []);
  /** @param {string} name */
  const choose = async (name) => {
    const now = await attempt(() => put("/auto-run", { auto_run: name }));
    // Drawn anew in any case: what was refused is not what counts.
    setMode(now ?? { ...mode });
  };
  if (!mode || !rows) return html`<span class="spinner"></span>`;
  const names = rows.map((row) => row.tool ?? row.name ?? row);
  return html`<fieldset class="choices"><legend>Before a call that changes something, in all conversations of mine</legend>
      ${Object.entries(AUTO_RUN).map(([name, words]) => html`<label class="check"><input type="radio" name="mode" checked=${mode.effective === name} onChange=${() => choose(name)} /> <strong>${name}</strong> ${words}</label>`)}</fieldset>
    <p class="quiet">Rules of the policy count in every mode; a conversation can have its own.</p>
    <h2>Allow list</h2><p class="quiet">Counts in the mode “allowlist”.</p>
    <ul class="chips">${names.map((name) => html`<li key=${name}>${name} <button type="button" class="plain" aria-label=${`Take ${name} off the list`} onClick=${() => attempt(() => remove(`/allowlist/${encodeURIComponent(name)}`).then(load))}>×</button></li>`)}</ul>
    <form class="row" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      const field = event.target.elements.tool;
      attempt(() => put(`/allowlist/${encodeURIComponent(field.value)}`).then(load)).then(() => (field.value = ""));
    }}><input name="tool" list="tools" required aria-label="A tool" placeholder="A tool" /><datalist id="tools">${tools.map((tool) => html`<option value=${tool.name} />`)}</datalist><button type="submit">Add</button></form>`;
}

function Keys() {
  const { rows, load } = useList("/keys");
  const [made, setMade] = useState(/** @type {any} */ (null));
  if (!rows) return html`<span class="spinner"></span>`;
  /** @param {any} event */
  const make = (event) => {
    event.preventDefault();
    const form = event.target;
    const scopes = [...form.querySelectorAll("[name=scope]:checked")].map((/** @type {any} */ box) => box.value);
    attempt(async () => {
      setMade(await post("/keys", { name: form.elements.name.value, scopes }, { once: false }));
      form.reset();
      load();
    });
  };
  return html`${rows.length === 0 && html`<p class="empty">Programs use this API by a key of yours. None has been made.</p>`}
    ${rows.map((key) => html`<div class="item row wrap" key=${key.id}><strong>${key.name}</strong><code>${key.begins}…</code><span class="fill quiet">${key.scopes.length > 0 ? key.scopes.join(", ") : "all that you may"}; made ${when(key.created_at)}${key.expires_at ? `, until ${full(key.expires_at)}` : ""}</span><button type="button" class="danger" onClick=${() => attempt(() => remove(`/keys/${key.id}`).then(load))}>Revoke</button></div>`)}
    <h2>Make a key</h2><form class="stack" onSubmit=${make}><label>What it is for <input name="name" required maxlength="100" placeholder="the nightly script" /></label>
      <div class="row wrap" role="group" aria-label="What it may">${["read", "run", "approve", ...(isAdmin.value ? ["admin"] : [])].map((scope) => html`<label class="check"><input type="checkbox" name="scope" value=${scope} /> ${scope}</label>`)}<span class="quiet">nothing chosen: all that you may</span></div>
      <div class="row"><button type="submit" class="primary">Make it</button></div></form>
    ${made && html`<${Dialog} title="The key, once" onClose=${() => setMade(null)}><p>Copy it now; only its beginning is kept.</p><pre tabindex="0">${made.secret}</pre>
      <div class="row end"><button type="button" class="primary" autofocus onClick=${() => navigator.clipboard.writeText(made.secret).then(() => setMade(null), failed)}>Copy and close</button></div></${Dialog}>`}`;
}

function SessionList() {
  const { rows, load } = useList("/auth/sessions");
  if (!rows) return html`<span class="spinner"></span>`;
  return html`${rows.map((one) => html`<div class="item row wrap" key=${one.id}><span class="fill">${one.agent ?? "an unknown browser"}<br /><span class="quiet">${one.from ?? ""} seen ${when(one.seen_at)}${one.current ? ", this one" : ""}</span></span>
      ${!one.current && html`<button type="button" onClick=${() => attempt(() => remove(`/auth/sessions/${one.id}`).then(load))}>End it</button>`}</div>`)}
    <p><button type="button" class="danger" onClick=${() => attempt(async () => (await remove("/auth/sessions"), await find()))}>Sign out everywhere</button></p>`;
}

function Team() {
  const { rows, load } = useList("/team/members?limit=200");
  const invites = useList("/team/invites");
  const [link, setLink] = useState(/** @type {any} */ (null));
  const [leaving, setLeaving] = useState(/** @type {any} */ (null));
  if (!rows) return html`<span class="spinner"></span>`;
  /** @param {any} member @param {object} change */
  const change = (member, change) =>
    attempt(async () => {
      const now = await get(`/team/members/${member.id}`);
      await patch(`/team/members/${member.id}`, change, { etag: now.etag });
    }).then(load);
  /** @param {any} event */
  const invite = (event) => {
    event.preventDefault();
    const { email, role } = event.target.elements;
    attempt(async () => {
      setLink(await post("/team/invites", { role: role.value, ...(email.value ? { email: email.value } : {}) }, { once: false }));
      invites.load();
      event.target.reset();
    });
  };
  return html`<div class="table" tabindex="0"><table class="list"><thead><tr><th>Who</th><th>Role</th><th>Credit</th><th></th></tr></thead><tbody>
      ${rows.map((member) => html`<tr key=${member.id} data-off=${!member.active}><td>${member.name || member.id}<br /><span class="quiet">${member.email ?? ""}${member.active ? "" : " (inactive)"}</span></td>
        <td><select aria-label=${`Role of ${member.name}`} value=${member.role} disabled=${member.id === me.value?.id} onChange=${(/** @type {any} */ event) => change(member, { role: event.target.value })}>${["admin", "member", "viewer"].map((role) => html`<option>${role}</option>`)}</select></td>
        <td>${member.credit_usd == null ? "unbounded" : money(member.credit_usd)}</td>
        <td class="row">${member.active && member.email && html`<button type="button" onClick=${() => attempt(async () => setLink(await post(`/team/members/${member.id}/reset`, {}, { once: false })))}>New password</button>`}
          ${member.id !== me.value?.id && (member.active ? html`<button type="button" class="danger" onClick=${() => setLeaving(member)}>Deactivate</button>` : html`<button type="button" onClick=${() => change(member, { active: true })}>Let back in</button>`)}</td></tr>`)}</tbody></table></div>
    <h2>Invite somebody</h2>
    <form class="row wrap" onSubmit=${invite}><input name="email" type="email" placeholder="E-mail (not needed)" aria-label="E-mail" /><select name="role" aria-label="Role"><option>member</option><option>viewer</option><option>admin</option></select><button type="submit" class="primary">Make a link</button></form>
    ${invites.rows?.map((one) => html`<div class="item row" key=${one.id}><span class="fill">${one.email ?? "whoever has the link"}, as ${one.role} <span class="quiet">until ${full(one.expires_at)}</span></span><button type="button" onClick=${() => attempt(() => remove(`/team/invites/${one.id}`).then(invites.load))}>Take back</button></div>`)}
    ${link && html`<${Dialog} title="A one-time link" onClose=${() => setLink(null)}><p>Send it to the person; it is good once, until ${full(link.expires_at)}.</p><pre tabindex="0">${link.url}</pre><div class="row end"><button type="button" class="primary" autofocus onClick=${() => navigator.clipboard.writeText(link.url).then(() => setLink(null), failed)}>Copy and close</button></div></${Dialog}>`}
    ${leaving && html`<${Confirm} title=${`Deactivate ${leaving.name}?`} text="Their sessions and keys end at once. What they did stays." action="Deactivate" onClose=${() => setLeaving(null)} onDo=${() => attempt(() => remove(`/team/members/${leaving.id}`).then(load))} />`}`;
}

function Limits() {
  const { rows } = useList("/limits");
  if (!rows) return html`<span class="spinner"></span>`;
  if (rows.length === 0) return html`<div class="empty"><h2>Nothing is limited</h2><p>Budgets of money, tokens or steps are set in <code>windlass.toml</code>; an administrator can give people a credit.</p></div>`;
  return html`${rows.map((limit) => {
    const said = (/** @type {number} */ amount) => (limit.unit === "usd" ? money(amount / 1e6) : amount.toLocaleString());
    return html`<div class="item"><div class="row"><strong class="fill">${limit.unit} per ${limit.per}${limit.window === "day" ? ", each day" : ""}</strong><span>${said(limit.used)} of ${said(limit.cap)}</span></div><meter min="0" max=${limit.cap} value=${limit.used + (limit.reserved ?? 0)}></meter></div>`;
  })}`;
}

function Look() {
  /** @param {any} own @param {[string, string][]} choices @param {string} legend */
  const choose = (own, choices, legend) => html`<fieldset class="choices"><legend>${legend}</legend>${choices.map(([value, words]) => html`<label class="check"><input type="radio" name=${legend} checked=${own.value === value} onChange=${() => (own.value = value)} /> ${words}</label>`)}</fieldset>`;
  return html`${choose(theme, [["auto", "as the system has it"], ["light", "light"], ["dark", "dark"]], "Colours")}
    ${choose(density, [["comfortable", "comfortable"], ["compact", "compact"]], "Density")}
    ${choose(sendBy, [["enter", "Enter sends, Shift Enter begins a line"], ["ctrl", "Ctrl Enter sends, Enter begins a line"]], "Sending")}
    ${choose(letters, [["on", "on, as ? lists them"], ["off", "off: only those with Ctrl, and Escape"]], "Shortcuts of a single letter")}`;
}
