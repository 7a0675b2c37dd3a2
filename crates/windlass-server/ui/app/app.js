// The whole page: who is not signed in signs in; everybody else has the sidebar and a place.

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

/** Pages that are loaded when somebody goes there. */
const PAGES = {
  inbox: () => import("./pages/inbox.js"),
  runs: () => import("./pages/runs.js"),
  compare: () => import("./pages/compare.js"),
  library: () => import("./pages/library.js"),
  usage: () => import("./pages/usage.js"),
  settings: () => import("./pages/settings.js"),
};

/** How they are called. @type {Record<keyof typeof PAGES, string>} */
const NAMES = { inbox: "Inbox", runs: "Runs", compare: "Two runs", library: "Library", usage: "Usage", settings: "Settings" };

/** The whole page. */
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

/** How a place is called, in the browser's own list of pages. @param {string[]} parts */
function nameOf([first, second]) {
  if (first === undefined) return "New conversation";
  if (first === "chat") return threads.threads.value.find((thread) => thread.id === second)?.title || (shown.value?.id === second && shown.value.title.value) || "Conversation";
  const name = NAMES[/** @type {keyof typeof PAGES} */ (first)];
  if (!name) return "No such page";
  if (first === "runs") return second ? `Run ${second.slice(4)}` : name;
  return second ? `${name}: ${second}` : name;
}

/**
 * Begins at the top of what has come, and lets a screen reader read its name. Whoever is at work stays there: in the
 * page, in a dialog, in any field, and wherever somebody has gone while the page was on its way.
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
    // What had the focus may be gone since.
    const isThere = active === from || active === document.body;
    const isAtWork = active?.closest("input, textarea, select, [contenteditable], main") || document.querySelector("dialog[open]");
    if (isThere && !isAtWork) {
      head.tabIndex = -1;
      head.focus({ preventScroll: true });
    }
    return true;
  };
  if (look()) return undefined;
  // A page may come later than its address.
  const watcher = new MutationObserver(() => look() && watcher.disconnect());
  watcher.observe(main, { childList: true, subtree: true });
  return () => watcher.disconnect();
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
