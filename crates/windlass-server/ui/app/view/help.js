// Keyboard shortcuts: the listener and the list.

import { html, signal, useEffect } from "../lib/html.js";
import { go } from "../lib/route.js";
import { shown } from "../state/conversation.js";
import { letters, sidebar } from "../state/look.js";
import { dismiss, notices } from "../state/notices.js";
import { answerOf, walk } from "./asks.js";
import { Dialog } from "./dialog.js";

const open = signal(false);

/** @type {[string, string, () => void][]} */
const GOING = [
  ["n", "New conversation", () => go("/")],
  ["i", "Inbox", () => go("/inbox")],
  ["r", "Runs", () => go("/runs")],
  ["l", "Library", () => go("/library")],
  ["u", "Usage", () => go("/usage")],
  ["s", "Settings", () => go("/settings")],
];

/** Keys that move through the open interrupts, and by how many. @type {Record<string, number>} */
const WALKING = { w: 0, j: 1, k: -1 };

/** @param {string} name */
const press = (name) => document.querySelector(`[data-key="${name}"]`);

/** Listens for shortcuts. In a field, letters are input; Ctrl shortcuts work everywhere, and Escape also in the composer. */
export function useShortcuts() {
  useEffect(() => {
    let afterG = -Infinity;
    /** @param {KeyboardEvent} event */
    const heard = (event) => {
      // Ignore the repeats of a held key, and let an open dialog handle its own keys.
      if (event.repeat || event.defaultPrevented || document.querySelector("dialog[open]")) return undefined;
      const command = event.ctrlKey || event.metaKey;
      if (command && event.key.toLowerCase() === "k") return act(event, search);
      if (command && event.key === "b") return act(event, () => (sidebar.value = sidebar.value === "open" ? "closed" : "open"));
      const field = event.target instanceof HTMLElement ? event.target.closest("input, textarea, select, [contenteditable]") : null;
      const plain = !command && !event.altKey && !event.isComposing;
      // In the composer, Escape stops a streaming reply; in other fields, the browser handles the key.
      if (plain && event.key === "Escape" && (!field || field === press("composer"))) return escaped(event);
      if (field || !plain) return undefined;
      if (letters.value === "off") return undefined;
      if (event.key === "?") return act(event, () => (open.value = true));
      if (event.key === "/") return act(event, () => focus("composer"));
      if (event.key === "a" || event.key === "d") {
        const button = answerOf(event.key === "a" ? "approve" : "deny");
        return button instanceof HTMLElement ? act(event, () => button.click()) : undefined;
      }
      const step = WALKING[event.key];
      if (step !== undefined) return act(event, () => walk(step));
      if (event.key === "g") return void (afterG = event.timeStamp);
      const going = GOING.find(([key]) => key === event.key);
      if (going && event.timeStamp - afterG < 1500) return act(event, going[2]);
      return undefined;
    };
    addEventListener("keydown", heard);
    return () => removeEventListener("keydown", heard);
  }, []);
}

/**
 * Closes a menu or dismisses a notice. If there is neither, stops a streaming reply. Escape never stops a waiting run:
 * only the button does.
 * @param {KeyboardEvent} event
 */
function escaped(event) {
  const menu = document.querySelector(":popover-open");
  if (menu instanceof HTMLElement) return act(event, () => menu.hidePopover());
  const notice = notices.value.at(-1);
  if (notice) return act(event, () => dismiss(notice.id));
  const stop = shown.value?.isStreaming.value && press("stop");
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

/** Focuses the search field, after the sidebar has rendered. */
function search() {
  sidebar.value = "open";
  requestAnimationFrame(() => requestAnimationFrame(() => focus("search")));
}

/** The dialog with the list of shortcuts. */
export function Help() {
  if (!open.value) return null;
  const rows = [
    ["?", "Show keyboard shortcuts"],
    ["/", "Write a message"],
    ["Ctrl K", "Search conversations"],
    ["Ctrl B", "Show or hide the sidebar"],
    ["w", "Go to the first open request"],
    ["j · k", "Go to the next or previous open request"],
    ["a · d", "Approve or deny the focused call"],
    ["Esc", "Close a menu or notice, otherwise stop the reply"],
    ["Ctrl Shift Enter", "Send to the active run after its current step"],
    ...GOING.map(([key, what]) => [`g ${key}`, what]),
  ];
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${() => (open.value = false)}>
    <table class="keys"><tbody>${rows.map(([key, what]) => html`<tr><th><kbd>${key}</kbd></th><td>${what}</td></tr>`)}</tbody></table>
    <div class="row end"><button type="button" onClick=${() => (open.value = false)} autofocus>Close</button></div>
  </${Dialog}>`;
}

export const showHelp = () => (open.value = true);
