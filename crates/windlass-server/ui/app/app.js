// The root component: the sign-in page, or the sidebar with the current page for a signed-in user.

import { online } from "./lib/api.js";
import { html, useEffect, useRef } from "./lib/html.js";
import { arrivals, go, place } from "./lib/route.js";
import { sidebar } from "./state/look.js";
import { find, interrupted, known, me } from "./state/session.js";
import * as endings from "./state/endings.js";
import { shown } from "./state/conversation.js";
import * as inbox from "./state/inbox.js";
import * as threads from "./state/threads.js";
import { ChatPage } from "./chat/page.js";
import { Begin } from "./chat/begin.js";
import { Later } from "./view/later.js";
import { Login } from "./pages/login.js";
import { dialogs } from "./view/dialog.js";
import { Help, useShortcuts } from "./view/help.js";
import { Notices } from "./view/notices.js";
import { Sidebar } from "./view/sidebar.js";

/** Pages whose modules are loaded on the first visit. */
const PAGES = {
  inbox: () => import("./pages/inbox.js"),
  runs: () => import("./pages/runs.js"),
  compare: () => import("./pages/compare.js"),
  library: () => import("./pages/library.js"),
  usage: () => import("./pages/usage.js"),
  settings: () => import("./pages/settings.js"),
};

/** Page titles. @type {Record<keyof typeof PAGES, string>} */
const NAMES = { inbox: "Inbox", runs: "Runs", compare: "Compare runs", library: "Library", usage: "Usage", settings: "Settings" };

export function App() {
  if (!known.value) return html`<div class="splash" aria-busy="true"><p>Windlass <span class="spinner"></span></p></div>`;
  return html`<${Notices} here=${dialogs.value.length === 0} />${me.value ? html`<${Signed} />` : html`<${Login} />`}`;
}

function Signed() {
  useShortcuts();
  useEffect(() => {
    inbox.load().catch(() => {});
    const stops = [inbox.keep(), threads.keep(), endings.keep()];
    return () => stops.forEach((stop) => stop());
  }, []);
  const waiting = inbox.mine.value.length;
  const title = `${waiting > 0 ? `(${waiting}) ` : ""}${nameOf(place.value.parts)} · Windlass`;
  useEffect(() => void (document.title = title), [title]);
  const times = arrivals.value;
  useEffect(() => (times > 0 ? arrive() : undefined), [times]);
  return html`
    <a class="skip" href="#main">Skip to main content</a>
    <div class="shell" data-sidebar=${sidebar.value}>
      <${Sidebar} />
      <main id="main" tabindex="-1">
        ${!online.value && html`<p class="banner" role="status">Connection lost. Reconnecting…</p>`}
        <${Place} />
      </main>
    </div>
    <${Help} />
    ${interrupted.value && html`<${Again} />`}
  `;
}

/** Returns the title of a page, for the browser's tab and history. @param {string[]} parts */
function nameOf([first, second]) {
  if (first === undefined) return "New conversation";
  if (first === "chat") return threads.threads.value.find((thread) => thread.id === second)?.title || (shown.value?.id === second && shown.value.title.value) || "Conversation";
  const name = NAMES[/** @type {keyof typeof PAGES} */ (first)];
  if (!name) return "Page not found";
  if (first === "runs") return second ? `Run ${second.slice(4)}` : name;
  return second ? `${name}: ${second}` : name;
}

/**
 * Scrolls a new page to its top and focuses its heading, so that a screen reader reads it. The focus does not move if
 * the user is in the page, in a dialog or in a field, or has moved the focus while the page was loading.
 */
function arrive() {
  const main = document.getElementById("main");
  if (!main) return undefined;
  main.scrollTop = 0;
  const from = document.activeElement;
  const look = () => {
    const head = main.querySelector("h1");
    if (!head) return false;
    const active = document.activeElement;
    // The page may no longer contain the element that had the focus.
    const isThere = active === from || active === document.body;
    const isAtWork = active?.closest("input, textarea, select, [contenteditable], main") || document.querySelector("dialog[open]");
    if (isThere && !isAtWork) {
      head.tabIndex = -1;
      head.focus({ preventScroll: true });
    }
    return true;
  };
  if (look()) return undefined;
  // The page's module may load after the address has changed.
  const watcher = new MutationObserver(() => look() && watcher.disconnect());
  watcher.observe(main, { childList: true, subtree: true });
  return () => watcher.disconnect();
}

/** The dialog to sign in again after the session has ended: a modal dialog that blocks the page. */
function Again() {
  const own = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    own.current?.showModal();
    // The user may have signed in by a one-time link in another tab.
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
  return load ? html`<${Later} key=${first} load=${load} />` : html`<div class="page"><h1>Page not found</h1><p><a href="/">New conversation</a></p></div>`;
}
