// The field that messages are written in. What is typed stays there until the server has taken it, and over a reload.

import { html, signal, useEffect, useRef, useState } from "../lib/html.js";
import { get, isOpen } from "../lib/api.js";
import { size } from "../lib/words.js";
import { draftOf, keepDraft } from "../state/drafts.js";
import { sendBy } from "../state/look.js";
import { failed } from "../state/notices.js";
import { Icon } from "../view/icon.js";

/** @typedef {{text: string, files: File[], options: {model?: string, mode?: string}, key: string}} Draft `key`: under which it is sent once. */

/** The server's own bounds: characters of a message, and files beside it. */
const MESSAGE_MAX = 32768;
const FILES_MAX = 20;

/** What a run may do at all. (ZE-H12) */
const MODES = [
  ["agent", "does things"],
  ["ask", "only reads, and answers"],
  ["plan", "reads, and makes a plan"],
];

/** @type {import("../../vendor/signals.js").Signal<any[]>} */
const models = signal([]);
let asked = false;

/** What was typed behind a text, or instead of it, while that was sent. @param {string} now @param {string} sent */
const restOf = (now, sent) => (now.startsWith(sent) ? now.slice(sent.length).trimStart() : now);

/** A file under a name that no other one has: the server keeps one of each. @param {File} file @param {File[]} others */
function named(file, others) {
  const taken = new Set(others.map((one) => one.name));
  if (!taken.has(file.name)) return file;
  const [, stem, end] = /** @type {RegExpExecArray} */ (/^(.*?)(\.[^.]*)?$/s.exec(file.name));
  let number = 2;
  while (taken.has(`${stem} (${number})${end ?? ""}`)) number += 1;
  return new File([file], `${stem} (${number})${end ?? ""}`, { type: file.type, lastModified: file.lastModified });
}

/**
 * @param {{name: string, onSend: (draft: Draft) => Promise<void>, onStop?: () => void, busy?: boolean, autofocus?: boolean}} props
 * `busy`: a run is active, so that a message waits behind it.
 */
export function Composer({ name, onSend, onStop, busy, autofocus }) {
  const [text, setText] = useState(() => draftOf(name));
  const [files, setFiles] = useState(/** @type {File[]} */ ([]));
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("");
  const [sending, setSending] = useState(false);
  const [over, setOver] = useState(false);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const typed = useRef("");
  typed.current = text;
  /** What was sent last, with its key, until it is known what became of it. */
  const wish = useRef({ of: /** @type {unknown[]} */ ([]), key: "" });
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    if (autofocus && matchMedia("(hover: hover)").matches) field.current?.focus();
    if (!asked) {
      asked = true;
      get("/models").then((page) => (models.value = page.data), () => (asked = false));
    }
  }, []);
  useEffect(() => {
    keepDraft(name, text);
    const own = field.current;
    if (!own) return;
    own.style.height = "auto";
    own.style.height = `${Math.min(own.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);
  /** @param {Iterable<File>} more */
  const add = (more) => {
    const some = [...more];
    setFiles((files) => some.reduce((all, file) => [...all, named(file, all)], files).slice(0, FILES_MAX));
  };
  const tooLong = [...text].length > MESSAGE_MAX;
  const may = text.trim() !== "" && !sending && !tooLong;
  const send = async () => {
    if (!may) return;
    setSending(true);
    const of = [text, model, mode, ...files];
    const same = of.length === wish.current.of.length && of.every((part, at) => part === wish.current.of[at]);
    if (!same) wish.current = { of, key: crypto.randomUUID() };
    try {
      await onSend({ text, files, options: { ...(model ? { model } : {}), ...(mode ? { mode } : {}) }, key: wish.current.key });
      wish.current = { of: [], key: "" };
      // This may be left by now: what was sent is no draft all the same.
      const rest = restOf(typed.current, text);
      keepDraft(name, rest);
      setText(rest);
      setFiles((now) => now.filter((file) => !files.includes(file)));
    } catch (error) {
      // What was refused is sent anew; of what may have arrived the server carries out one.
      if (!isOpen(error)) wish.current = { of: [], key: "" };
      failed(error);
    } finally {
      setSending(false);
      field.current?.focus();
    }
  };
  /** @param {KeyboardEvent} event */
  const pressed = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    const command = event.ctrlKey || event.metaKey;
    if (command || (sendBy.value === "enter" && !event.shiftKey)) {
      event.preventDefault();
      send();
    }
  };
  return html`<form class="composer" data-over=${over} onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    send();
  }} onDragOver=${(/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(true);
  }} onDragLeave=${() => setOver(false)} onDrop=${(/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(false);
    add(event.dataTransfer?.files ?? []);
  }}>
    ${files.length > 0 &&
    html`<ul class="chips" aria-label="Files">${files.map((file) => html`<li key=${file.name}>${file.name} <small>${size(file.size)}</small>
      <button type="button" class="plain" aria-label=${`Leave ${file.name} away`} onClick=${() => setFiles(files.filter((one) => one !== file))}>×</button></li>`)}</ul>`}
    <textarea ref=${field} data-key="composer" rows="1" aria-label="Message" placeholder=${busy ? "Write on; it is sent when this is done" : "Write what is to be done"} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${pressed} onPaste=${(/** @type {ClipboardEvent} */ event) => {
      const pasted = [...(event.clipboardData?.files ?? [])];
      if (pasted.length > 0) {
        event.preventDefault();
        add(pasted);
      }
    }}></textarea>
    ${tooLong && html`<p class="wrong" role="alert">The message has ${[...text].length} characters; at most ${MESSAGE_MAX} are taken. Attach it as a file instead.</p>`}
    <div class="row">
      <button type="button" class="plain" aria-label="Attach files" onClick=${() => picker.current?.click()}><${Icon} name="attach" /></button>
      <input ref=${picker} type="file" multiple hidden tabindex="-1" onChange=${(/** @type {any} */ event) => {
        add(event.target.files);
        event.target.value = "";
      }} />
      <select class="quiet-select" aria-label="Mode" title="What the agent may do" value=${mode} onChange=${(/** @type {any} */ event) => setMode(event.target.value)}>
        <option value="">mode as before</option>
        ${MODES.map(([name, words]) => html`<option value=${name}>${name}: ${words}</option>`)}
      </select>
      ${models.value.length > 1 &&
      html`<select aria-label="Model" value=${model} onChange=${(/** @type {any} */ event) => setModel(event.target.value)}>
        <option value="">${models.value[0].name}</option>
        ${models.value.slice(1).map((one) => html`<option value=${one.name}>${one.name}</option>`)}
      </select>`}
      <span class="fill"></span>
      ${busy && onStop && html`<button type="button" class="stop" data-key="stop" onClick=${onStop}><${Icon} name="stop" size=${15} /> Stop</button>`}
      <button type="submit" class="primary round" disabled=${!may} aria-label=${busy ? "Queue the message" : "Send"}><${Icon} name="send" /></button>
    </div>
  </form>`;
}
