// Signing in at a tool server: in a window of its own, which comes back to this server. Here it is waited for.

import { post } from "../../lib/api.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { attempt, done } from "../../state/notices.js";
import { Dialog } from "../../view/dialog.js";

/** How often it is looked whether somebody has signed in, in milliseconds. */
const LOOK_AGAIN_MS = 1000;

/** @param {{name: string, state: string | undefined, onLook: () => void, onClose: () => void}} props */
export function SignIn({ name, state, onLook, onClose }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    // Each sign-in that has begun is another one.
    attempt(() => post(`/mcp/servers/${encodeURIComponent(name)}/sign-in`, {}, { once: false })).then((begun) => (begun ? setUrl(begun.url) : onClose()));
    const timer = setInterval(onLook, LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (state !== "connected") return;
    done(`Signed in at ${name}.`);
    onClose();
  }, [state]);
  // Whatever a server says, no other kind of address is opened.
  const opens = /^https?:/.test(url);
  return html`<${Dialog} title=${`Sign in at ${name}`} onClose=${onClose}>
    <p>It opens in a window of its own. What the account there may do, all runs on this server may then ask for; the policy still says which calls run.</p>
    ${url ? html`<p class="quiet address">${url}</p>` : html`<p aria-busy="true"><span class="spinner"></span></p>`}
    <p class="quiet" role="status">${url ? "This closes by itself once you have signed in." : ""}</p>
    <div class="row end"><button type="button" onClick=${onClose}>Not now</button>
      ${opens && html`<a class="button primary" href=${url} target="_blank" rel="noopener noreferrer">Sign in at ${new URL(url).host}</a>`}</div>
  </${Dialog}>`;
}
