// Shortcuts: what they are, and listening for them.

import { html, signal, useEffect } from "../lib/html.js";
import { go } from "../lib/route.js";
import { letters, sidebar } from "../state/look.js";
import { Dialog } from "./dialog.js";

const open = signal(false);

/** @type {[string, string, () => void][]} */
const GOING = [
  ["n", "Begin a conversation", () => go("/")],
  ["i", "Inbox", () => go("/inbox")],
  ["r", "Runs", () => go("/runs")],
  ["l", "Library", () => go("/library")],
  ["u", "Usage", () => go("/usage")],
  ["s", "Settings", () => go("/settings")],
];

/** @param {string} name */
const press = (name) => document.querySelector(`[data-key="${name}"]`);

/** Listens for shortcuts; typing is never one. */
export function useShortcuts() {
  useEffect(() => {
    let afterG = 0;
    /** @param {KeyboardEvent} event */
    const heard = (event) => {
      // A key that is held acts once, and what lies above the page has the keys for itself.
      if (event.repeat || event.defaultPrevented || document.querySelector("dialog[open]")) return undefined;
      const command = event.ctrlKey || event.metaKey;
      if (command && event.key.toLowerCase() === "k") return act(event, search);
      if (command && event.key === "b") return act(event, () => (sidebar.value = sidebar.value === "open" ? "closed" : "open"));
      const field = event.target instanceof HTMLElement ? event.target.closest("input, textarea, select, [contenteditable]") : null;
      const plain = !command && !event.altKey && !event.isComposing;
      // Whoever writes on while a run goes on stops it from there; in other fields the key belongs to the field.
      if (plain && event.key === "Escape" && (!field || field === press("composer"))) return escaped(event);
      if (field || !plain) return undefined;
      if (letters.value === "off") return undefined;
      if (event.key === "?") return act(event, () => (open.value = true));
      if (event.key === "/") return act(event, () => focus("composer"));
      if (event.key === "a" || event.key === "d") {
        const button = press(event.key === "a" ? "approve" : "deny");
        return button instanceof HTMLElement ? act(event, () => button.click()) : undefined;
      }
      if (event.key === "g") return void (afterG = event.timeStamp);
      const going = GOING.find(([key]) => key === event.key);
      if (going && event.timeStamp - afterG < 1500) return act(event, going[2]);
      return undefined;
    };
    addEventListener("keydown", heard);
    return () => removeEventListener("keydown", heard);
  }, []);
}

/** Closes a menu; only where none is open, it stops the run. @param {KeyboardEvent} event */
function escaped(event) {
  const menus = document.querySelectorAll("details.menu[open]");
  if (menus.length > 0) return act(event, () => menus.forEach((menu) => menu.removeAttribute("open")));
  const stop = press("stop");
  return stop instanceof HTMLElement ? act(event, () => stop.click()) : undefined;
}

/** @param {Event} event @param {() => void} what */
function act(event, what) {
  event.preventDefault();
  what();
}

/** @param {string} name */
const focus = (name) => {
  const element = press(name);
  if (element instanceof HTMLElement) element.focus();
};

/** Goes to the field of the search, which may have to come first. */
function search() {
  sidebar.value = "open";
  requestAnimationFrame(() => requestAnimationFrame(() => focus("search")));
}

/** The list, under `?`. */
export function Help() {
  if (!open.value) return null;
  const rows = [
    ["?", "This list"],
    ["/", "Write a message"],
    ["Ctrl K", "Search conversations"],
    ["Ctrl B", "Show or hide the sidebar"],
    ["a · d", "Approve or deny the first call that waits"],
    ["Esc", "Stop the run"],
    ...GOING.map(([key, what]) => [`g ${key}`, what]),
  ];
  return html`<${Dialog} title="Shortcuts" onClose=${() => (open.value = false)}>
    <table class="keys"><tbody>${rows.map(([key, what]) => html`<tr><th><kbd>${key}</kbd></th><td>${what}</td></tr>`)}</tbody></table>
    <div class="row end"><button type="button" onClick=${() => (open.value = false)} autofocus>Close</button></div>
  </${Dialog}>`;
}

export const showHelp = () => (open.value = true);
