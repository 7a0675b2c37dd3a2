// The user's account: name, email, password, sign-out.

import { patch, put } from "../../lib/api.js";
import { html } from "../../lib/html.js";
import { attempt, done } from "../../state/notices.js";
import { find, me, signOut } from "../../state/session.js";

export function Page() {
  /** @param {any} event */
  const save = (event) => {
    event.preventDefault();
    const { name } = event.target.elements;
    attempt(async () => {
      await patch("/auth/me", { name: name.value });
      await find();
      done("Saved");
    });
  };
  /** @param {any} event */
  const move = (event) => {
    event.preventDefault();
    const { email, password } = event.target.elements;
    attempt(async () => {
      await patch("/auth/me", { email: email.value, password: password.value });
      event.target.reset();
      await find();
      done("Email changed");
    });
  };
  /** @param {any} event */
  const change = (event) => {
    event.preventDefault();
    const { old, fresh, revoke } = event.target.elements;
    attempt(async () => {
      const known = old ? { current_password: old.value } : {};
      await put("/auth/password", { ...known, new_password: fresh.value, revoke_keys: revoke.checked });
      event.target.reset();
      await find();
      done("Password changed. All other sessions have ended.");
    });
  };
  return html`<form class="stack" onSubmit=${save}><label>Name <input name="name" maxlength="100" defaultValue=${me.value?.name ?? ""} /></label>
      <p class="quiet">${me.value?.email ?? "no email address"}, ${me.value?.role} in “${me.value?.workspace}”</p><div class="row"><button type="submit" class="primary">Save</button></div></form>
    ${me.value?.has_password && html`<h2>Email</h2><form class="stack" onSubmit=${move}><label>New email <input name="email" type="email" autocomplete="email" required /></label>
      <label>Password <input name="password" type="password" autocomplete="current-password" required /></label><div class="row"><button type="submit">Change email</button></div></form>`}
    <h2>Password</h2>
    <form class="stack" onSubmit=${change}>${me.value?.has_password && html`<label>Current password <input name="old" type="password" autocomplete="current-password" required /></label>`}
      <label>New password <input name="fresh" type="password" autocomplete="new-password" minlength="8" required /></label>
      <label class="check"><input name="revoke" type="checkbox" /> Also revoke my API keys</label><div class="row"><button type="submit">Change password</button></div></form>
    <h2>Sign out</h2><p><button type="button" onClick=${() => attempt(signOut)}>Sign out of this browser</button></p>`;
}
