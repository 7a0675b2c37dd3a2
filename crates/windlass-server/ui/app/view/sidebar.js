// The sidebar: pages, search, and conversations grouped by time. (SK-U11)

import { BASE } from "../lib/api.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { go, place } from "../lib/route.js";
import { group } from "../lib/words.js";
import { inbox, mine } from "../state/inbox.js";
import { sidebar } from "../state/look.js";
import { attempt } from "../state/notices.js";
import { mayRun, me } from "../state/session.js";
import { forget, hasMore, isUnread, load, loading, rename, search, threads } from "../state/threads.js";
import { goOn } from "./asks.js";
import { Confirm } from "./dialog.js";
import { showHelp } from "./help.js";
import { Icon } from "./icon.js";
import { Menu } from "./menu.js";
import { When } from "./ticking.js";

const SEARCH_WAIT_MS = 250;

const PLACES = [
  ["/inbox", "inbox", "Inbox"],
  ["/runs", "runs", "Runs"],
  ["/library", "library", "Library"],
  ["/usage", "usage", "Usage"],
  ["/settings", "settings", "Settings"],
];

export function Sidebar() {
  const [text, setText] = useState("");
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false;
      load();
      return undefined;
    }
    const timer = setTimeout(() => {
      search.value = text;
      load();
    }, SEARCH_WAIT_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const here = place.value;
  const waiting = mine.value.length;
  // A closed sidebar shows the count of open requests on its button.
  const isHidden = waiting > 0 && sidebar.value === "closed";
  const close = () => matchMedia("(max-width: 760px)").matches && (sidebar.value = "closed");
  return html`<aside class="sidebar" aria-label="Sidebar">
    <div class="row brand">
      <button type="button" class="plain" aria-label="Show or hide the sidebar" aria-describedby=${isHidden ? "waiting" : undefined} onClick=${() => (sidebar.value = sidebar.value === "open" ? "closed" : "open")}><${Icon} name="panel" />
        ${isHidden && html`<span class="badge" id="waiting" aria-label=${waitFor(waiting)}>${waiting}</span>`}</button>
      <a href="/" class="name" onClick=${close}>Windlass</a>
    </div>
    <div class="inside">
      ${mayRun.value && html`<a class="button primary" href="/" onClick=${close}><${Icon} name="plus" /> New conversation</a>`}
      <nav aria-label="Main" onClick=${close}>
        ${PLACES.map(
          ([path, icon, name]) => html`<a href=${path} aria-current=${here.path.startsWith(path) ? "page" : undefined}>
            <${Icon} name=${icon} /> ${name}
            ${path === "/inbox" && waiting > 0 && html`<span class="badge" aria-label=${waitFor(waiting)}>${waiting}</span>`}
          </a>`,
        )}
      </nav>
      <label class="search"><${Icon} name="search" size=${15} />
        <input type="search" data-key="search" placeholder="Search conversations" aria-label="Search conversations" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
      </label>
      <${History} current=${here.parts[0] === "chat" ? here.parts[1] : ""} onGo=${close} />
    </div>
    <div class="row foot">
      <a class="who" href="/settings">${me.value?.name || me.value?.email || me.value?.id}</a>
      <button type="button" class="plain" onClick=${showHelp} aria-label="Keyboard shortcuts">?</button>
    </div>
  </aside>`;
}

/** @param {number} count */
const waitFor = (count) => (count === 1 ? "1 request needs your input" : `${count} requests need your input`);

/** @param {{current: string, onGo: () => void}} props */
function History({ current, onGo }) {
  const end = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const watcher = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && load(true));
    if (end.current) watcher.observe(end.current);
    return () => watcher.disconnect();
  }, []);
  let last = "";
  const rows = threads.value.flatMap((thread) => {
    const own = group(thread.updated_at);
    const head = own === last ? [] : [html`<h2 key=${own}>${own}</h2>`];
    last = own;
    return [...head, html`<${Row} key=${thread.id} thread=${thread} current=${thread.id === current} onGo=${onGo} />`];
  });
  const none = search.value ? `No results for “${search.value}”.` : "Your conversations appear here.";
  return html`<div class="history" aria-busy=${loading.value}>
    ${rows}
    ${rows.length === 0 && !loading.value && (isUnread.value ? html`<p class="empty">Cannot load conversations. <button type="button" onClick=${() => load()}>Try again</button></p>` : html`<p class="empty">${none}</p>`)}
    <div ref=${end} class="end">${hasMore.value && html`<button type="button" class="plain" onClick=${() => load(true)}>More</button>`}</div>
  </div>`;
}

/**
 * Defined once at module level: Preact calls a ref again on each render if its function changes.
 * @param {HTMLInputElement | null} own
 */
const selected = (own) => {
  own?.focus();
  own?.select();
};

/** Shows a title, and animates a title that arrives while the row is shown. @param {{text: string}} props */
function Title({ text }) {
  const first = useRef(text);
  return html`<span key=${text} class="title" data-fresh=${text !== first.current}>${text}</span>`;
}

/** @param {{thread: import("../state/threads.js").Thread, current: boolean, onGo: () => void}} props */
function Row({ thread, current, onGo }) {
  const [mode, setMode] = useState(/** @type {"" | "name" | "forget"} */ (""));
  const link = useRef(/** @type {HTMLElement | null} */ (null));
  const before = useRef(mode);
  useEffect(() => {
    if (before.current === "name" && document.activeElement === document.body) link.current?.focus();
    before.current = mode;
  }, [mode]);
  if (mode === "name") {
    /** @param {string} title */
    const save = (title) => {
      setMode("");
      if (title.trim() && title !== thread.title) attempt(() => rename(thread.id, title.trim()));
    };
    return html`<form class="thread" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      save(event.target.elements.title.value);
    }}><input name="title" aria-label="Title" maxlength="60" defaultValue=${thread.title ?? ""} ref=${selected} onBlur=${(/** @type {any} */ event) => save(event.target.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && setMode("")} /></form>`;
  }
  const busy = thread.status === "running";
  // The list may be older than the state of the conversation on the page.
  const asks = thread.interrupts > 0 || inbox.value.some((open) => open.thread === thread.id);
  return html`<div class="thread" data-current=${current}>
    <a href=${`/chat/${thread.id}`} ref=${link} aria-current=${current ? "page" : undefined} onClick=${onGo}>
      ${thread.forked_from && html`<span class="forked" role="img" aria-label="Fork" title="Fork of another conversation"><${Icon} name="fork" size=${13} /></span>`}
      <${Title} text=${thread.title || "Untitled"} />
      ${asks ? html`<span class="dot asks" title="Needs approval"></span>` : busy ? html`<span class="dot busy" title="Running"></span>` : html`<${When} at=${thread.updated_at} />`}
    </a>
    <${Menu} name=${`Actions for ${thread.title ?? "this conversation"}`}>
      <button type="button" onClick=${() => setMode("name")}>Rename</button>
      <a class="button" href=${`${BASE}/threads/${thread.id}/export`} download>Export</a>
      <button type="button" class="danger" onClick=${() => setMode("forget")}>Delete</button>
    </${Menu}>
    ${mode === "forget" &&
    html`<${Confirm} title="Delete this conversation?" text=${`This deletes “${thread.title ?? "Untitled"}” with its messages, runs and files. You cannot undo this.`} action="Delete" onClose=${() => setMode("")} onDo=${() =>
      attempt(async () => {
        await forget(thread.id);
        if (current) go("/", { replace: true });
        else goOn();
      })} />`}
  </div>`;
}
