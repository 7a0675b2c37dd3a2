// One's own account: name, address, password, and signing out.

import { patch, put } from "../../lib/api.js";
import { html } from "../../lib/html.js";
import { attempt, done } from "../../state/notices.js";
import { find, me, signOut } from "../../state/session.js";

/** The section. */
export function Page() {
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
  const move = (event) => {
    event.preventDefault();
    const { email, password } = event.target.elements;
    attempt(async () => {
      await patch("/auth/me", { email: email.value, password: password.value });
      event.target.reset();
      await find();
      done("The address is changed.");
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
      done("The password is changed; all other sessions have ended.");
    });
  };
  return html`<form class="stack" onSubmit=${save}><label>Name <input name="name" maxlength="100" defaultValue=${me.value?.name ?? ""} /></label>
      <p class="quiet">${me.value?.email ?? "no e-mail address"}, ${me.value?.role} in “${me.value?.workspace}”</p><div class="row"><button type="submit" class="primary">Save</button></div></form>
    ${me.value?.has_password && html`<h2>E-mail</h2><form class="stack" onSubmit=${move}><label>A new address <input name="email" type="email" autocomplete="email" required /></label>
      <label>Password <input name="password" type="password" autocomplete="current-password" required /></label><div class="row"><button type="submit">Change it</button></div></form>`}
    <h2>Password</h2>
    <form class="stack" onSubmit=${change}>${me.value?.has_password && html`<label>The one now <input name="old" type="password" autocomplete="current-password" required /></label>`}
      <label>A new one <input name="fresh" type="password" autocomplete="new-password" minlength="8" required /></label>
      <label class="check"><input name="revoke" type="checkbox" /> Revoke my API keys too</label><div class="row"><button type="submit">Change it</button></div></form>
    <h2>Sign out</h2><p><button type="button" onClick=${() => attempt(signOut)}>Sign out of this browser</button></p>`;
}
