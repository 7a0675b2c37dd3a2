// Sign-in, and registration if the server allows it. After a session has ended, the form is shown above the page.

import { BASE, get, post, told } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { find, me } from "../state/session.js";

/** @param {{again?: boolean}} props */
export function Login({ again = false }) {
  const [options, setOptions] = useState(/** @type {any} */ (null));
  const [registering, setRegistering] = useState(false);
  const [wrong, setWrong] = useState(/** @type {{title: string, hint: string} | null} */ (null));
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    get("/auth/options").then(setOptions, (error) => setWrong(told(error)));
  }, []);
  /** @param {any} event */
  const enter = async (event) => {
    event.preventDefault();
    setBusy(true);
    setWrong(null);
    const { email, password, name } = event.target.elements;
    try {
      const body = { email: email.value, password: password.value, ...(registering ? { name: name.value } : {}) };
      await post(registering ? "/auth/register" : "/auth/login", body, { once: false });
      await find();
    } catch (error) {
      setWrong(told(error));
    } finally {
      setBusy(false);
    }
  };
  const turn = () => {
    setRegistering(!registering);
    // Clear the error, because it belongs to the other form.
    setWrong(null);
  };
  const open = options?.registration === "open";
  return html`<div class="login" role=${again ? undefined : "main"}>
    <form onSubmit=${enter}>
      <h1>${again ? "Your session has ended" : registering ? "Create a Windlass account" : "Sign in to Windlass"}</h1>
      ${again && html`<p>Sign in again as ${me.value?.email ?? me.value?.name}. Your unsaved text is kept.</p>`}
      <label>Email <input name="email" type="email" autocomplete="username" required defaultValue=${again ? (me.value?.email ?? "") : ""} /></label>
      ${registering && html`<label>Name <input name="name" autocomplete="name" maxlength="100" /></label>`}
      <label>Password <input name="password" type="password" autocomplete=${registering ? "new-password" : "current-password"} minlength=${registering ? 8 : undefined} required /></label>
      ${wrong && html`<p class="wrong" role="alert">${wrong.title}${wrong.hint && html` <small>${wrong.hint}</small>`}</p>`}
      <button type="submit" class="primary" disabled=${busy}>${registering ? "Create account" : "Sign in"}</button>
      ${open && !again && html`<button type="button" class="plain" onClick=${turn}>${registering ? "Sign in instead" : "Create account"}</button>`}
      ${(options?.providers ?? []).map((/** @type {any} */ one) => html`<a class="button" href=${`${BASE}/auth/oidc/${encodeURIComponent(one.name ?? one)}`} ...${again ? { target: "_blank", rel: "noopener" } : {}}>Sign in with ${one.title ?? one.name ?? one}</a>`)}
      ${options && !options.registered && html`<p class="quiet">${again ? "No account has a password yet." : "No accounts yet."} Open the link that <code>windlass serve</code> printed, or create one with <code>windlass admin link</code>.</p>`}
      ${options?.registration === "invite" && options.registered && html`<p class="quiet">No account? Ask an administrator for an invitation.</p>`}
    </form>
  </div>`;
}
