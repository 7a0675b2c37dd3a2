// Shortcuts: what they are, and listening for them.

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
  ["n", "Begin a conversation", () => go("/")],
  ["i", "Inbox", () => go("/inbox")],
  ["r", "Runs", () => go("/runs")],
  ["l", "Library", () => go("/library")],
  ["u", "Usage", () => go("/usage")],
  ["s", "Settings", () => go("/settings")],
];

/** Keys that go through what is asked, and how far. @type {Record<string, number>} */
const WALKING = { w: 0, j: 1, k: -1 };

/** @param {string} name */
const press = (name) => document.querySelector(`[data-key="${name}"]`);

/** Listens for shortcuts. Letters are none in a field; those with Ctrl are everywhere, and Escape stops a reply from the composer too. */
export function useShortcuts() {
  useEffect(() => {
    let afterG = -Infinity;
    /** @param {KeyboardEvent} event */
    const heard = (event) => {
      // A key that is held acts once, and what lies above the page has the keys for itself.
      if (event.repeat || event.defaultPrevented || document.querySelector("dialog[open]")) return undefined;
      const command = event.ctrlKey || event.metaKey;
      if (command && event.key.toLowerCase() === "k") return act(event, search);
      if (command && event.key === "b") return act(event, () => (sidebar.value = sidebar.value === "open" ? "closed" : "open"));
      const field = event.target instanceof HTMLElement ? event.target.closest("input, textarea, select, [contenteditable]") : null;
      const plain = !command && !event.altKey && !event.isComposing;
      // In the composer Esc stops a reply that streams; in other fields the key belongs to the field.
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
 * Closes what lies above the page, a menu or a message. Only where nothing does, it stops a reply that is being written: a run
 * that waits for a person is ended by the button alone. @param {KeyboardEvent} event
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
    ["w", "Go to the first that waits"],
    ["j · k", "Go to the next that waits, or to the one before"],
    ["a · d", "Approve or deny the call that has the focus"],
    ["Esc", "Close a menu or a message, else stop the reply"],
    ["Ctrl Shift Enter", "Tell the agent at work now, after its current step"],
    ...GOING.map(([key, what]) => [`g ${key}`, what]),
  ];
  return html`<${Dialog} title="Shortcuts" onClose=${() => (open.value = false)}>
    <table class="keys"><tbody>${rows.map(([key, what]) => html`<tr><th><kbd>${key}</kbd></th><td>${what}</td></tr>`)}</tbody></table>
    <div class="row end"><button type="button" onClick=${() => (open.value = false)} autofocus>Close</button></div>
  </${Dialog}>`;
}

export const showHelp = () => (open.value = true);
