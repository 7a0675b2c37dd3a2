// The whole page: who is not signed in signs in; everybody else has the sidebar and a place.

import { online } from "../lib/api.js";
import { html, useEffect, useRef } from "../lib/html.js";
import { go, place } from "../lib/route.js";
import { sidebar } from "../state/look.js";
import { dismiss, notices } from "../state/notices.js";
import { find, interrupted, known, me } from "../state/session.js";
import * as inbox from "../state/inbox.js";
import * as threads from "../state/threads.js";
import { ChatPage } from "../chat/page.js";
import { Begin } from "../chat/begin.js";
import { Later } from "./later.js";
import { Login } from "../pages/login.js";
import { Help, useShortcuts } from "./help.js";
import { Sidebar } from "./sidebar.js";

/** Pages that are loaded when somebody goes there. */
const PAGES = {
  inbox: () => import("../pages/inbox.js"),
  runs: () => import("../pages/runs.js"),
  compare: () => import("../pages/compare.js"),
  library: () => import("../pages/library.js"),
  usage: () => import("../pages/usage.js"),
  settings: () => import("../pages/settings.js"),
};

/** The whole page. */
export function App() {
  if (!known.value) return html`<div class="splash" aria-busy="true"><span class="spinner"></span></div>`;
  return html`<${Notices} />${me.value ? html`<${Signed} />` : html`<${Login} />`}`;
}

function Signed() {
  useShortcuts();
  useEffect(() => {
    inbox.load().catch(() => {});
    const stops = [inbox.keep(), threads.keep()];
    return () => stops.forEach((stop) => stop());
  }, []);
  const waiting = inbox.mine.value.length;
  useEffect(() => {
    document.title = waiting > 0 ? `(${waiting}) Windlass` : "Windlass";
  }, [waiting]);
  return html`
    <a class="skip" href="#main">Skip to the page</a>
    <div class="shell" data-sidebar=${sidebar.value}>
      <${Sidebar} />
      <main id="main" tabindex="-1">
        ${!online.value && html`<p class="banner" role="status">Not connected. What you see is what was there; it goes on by itself.</p>`}
        <${Place} />
      </main>
    </div>
    <${Help} />
    ${interrupted.value && html`<${Again} />`}
  `;
}

/** Signing in again, in front of everything else: nothing of the page can be reached meanwhile. */
function Again() {
  const own = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    own.current?.showModal();
    // Whoever has opened a one-time link in another tab comes back signed in.
    const look = () => void find().catch(() => {});
    addEventListener("focus", look);
    return () => removeEventListener("focus", look);
  }, []);
  return html`<dialog ref=${own} class="veil" aria-label="Sign in" onCancel=${(/** @type {Event} */ event) => event.preventDefault()} onClose=${() => own.current?.showModal()}><${Login} again /></dialog>`;
}

function Place() {
  const [first, second] = place.value.parts;
  if (first === undefined) return html`<${Begin} />`;
  if (first === "login") {
    go("/", { replace: true });
    return null;
  }
  if (first === "chat" && second) return html`<${ChatPage} key=${second} id=${second} />`;
  const load = PAGES[/** @type {keyof typeof PAGES} */ (first)];
  return load ? html`<${Later} key=${first} load=${load} />` : html`<div class="page"><h1>There is no such page</h1><p><a href="/">Begin a conversation</a></p></div>`;
}

function Notices() {
  return html`<div class="notices" role="status" aria-live="polite">
    ${notices.value.map(
      (notice) => html`<div class="notice" data-kind=${notice.kind} key=${notice.id}>
        <div><strong>${notice.title}</strong>${notice.hint && html`<p>${notice.hint}</p>`}</div>
        <button type="button" class="plain" aria-label="Dismiss" onClick=${() => dismiss(notice.id)}>×</button>
      </div>`,
    )}
  </div>`;
}
