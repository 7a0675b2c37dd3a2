// Shortcuts: what they are, and listening for them.

import { html, signal, useEffect } from "../lib/html.js";
import { go } from "../lib/route.js";
import { sidebar } from "../state/look.js";
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
      const command = event.ctrlKey || event.metaKey;
      if (command && event.key.toLowerCase() === "k") return act(event, () => focus("search"));
      if (command && event.key === "b") return act(event, () => (sidebar.value = sidebar.value === "open" ? "closed" : "open"));
      if (event.target instanceof HTMLElement && event.target.closest("input, textarea, select, dialog, [contenteditable]")) return undefined;
      if (command || event.altKey) return undefined;
      if (event.key === "?") return act(event, () => (open.value = true));
      if (event.key === "/") return act(event, () => focus("composer"));
      if (event.key === "Escape") return void (press("stop") instanceof HTMLElement && /** @type {HTMLElement} */ (press("stop")).click());
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
