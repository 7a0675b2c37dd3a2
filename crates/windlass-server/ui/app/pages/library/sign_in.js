// The sign-in to a tool server. The sign-in uses a new window, which redirects to this server; the dialog polls for the
// result.

import { post } from "../../lib/api.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { attempt, done } from "../../state/notices.js";
import { Dialog } from "../../view/dialog.js";

/** Polling interval for the end of the sign-in, in milliseconds. */
const LOOK_AGAIN_MS = 1000;

/** @param {{name: string, state: string | undefined, onLook: () => void, onClose: () => void}} props */
export function SignIn({ name, state, onLook, onClose }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    // Each request starts a new sign-in, so the dialog sends only one.
    attempt(() => post(`/mcp/servers/${encodeURIComponent(name)}/sign-in`, {}, { once: false })).then((begun) => (begun ? setUrl(begun.url) : onClose()));
    const timer = setInterval(onLook, LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (state !== "connected") return;
    done(`Signed in to ${name}`);
    onClose();
  }, [state]);
  // The tool server chooses the address, so open only HTTP links.
  const opens = /^https?:/.test(url);
  return html`<${Dialog} title=${`Sign in to ${name}`} onClose=${onClose}>
    <p>The sign-in page opens in a new window. All runs on this server can then use the account's permissions; the policy still applies to each call.</p>
    ${url ? html`<p class="quiet address">${url}</p>` : html`<p aria-busy="true"><span class="spinner"></span></p>`}
    <p class="quiet" role="status">${url ? "This dialog closes after you have signed in." : ""}</p>
    <div class="row end"><button type="button" onClick=${onClose}>Cancel</button>
      ${opens && html`<a class="button primary" href=${url} target="_blank" rel="noopener noreferrer">Sign in to ${new URL(url).host}</a>`}</div>
  </${Dialog}>`;
}
