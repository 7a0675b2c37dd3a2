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
 * @param {{name: string, onSend: (draft: Draft) => Promise<void>, onStop?: () => void, busy?: boolean, leaves?: boolean, autofocus?: boolean}} props
 * `busy`: a run is active, so that a message waits behind it; `leaves`: sending leads to another page.
 */
export function Composer({ name, onSend, onStop, busy, leaves, autofocus }) {
  const [text, setText] = useState(() => draftOf(name));
  const [files, setFiles] = useState(/** @type {File[]} */ ([]));
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("");
  const [over, setOver] = useState(false);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  /** Texts that the server has not taken yet, and what stands in the field. */
  const onWay = useRef(/** @type {string[]} */ ([]));
  const typed = useRef(text);
  typed.current = text;
  const line = useRef(Promise.resolve());
  /** What was sent last and perhaps has arrived, with its key. */
  const open = useRef({ of: /** @type {unknown[]} */ ([]), key: "" });
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    if (autofocus && matchMedia("(hover: hover)").matches) field.current?.focus();
    if (!asked) {
      asked = true;
      get("/models").then((page) => (models.value = page.data), () => (asked = false));
    }
  }, []);
  useEffect(() => {
    keepDraft(name, [...onWay.current, text].filter(Boolean).join("\n"));
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
  const may = text.trim() !== "" && !tooLong && !(leaves && onWay.current.length > 0);
  const send = () => {
    if (!may) return;
    const of = [text, model, mode, ...files];
    const same = of.length === open.current.of.length && of.every((part, at) => part === open.current.of[at]);
    const key = same ? open.current.key : crypto.randomUUID();
    onWay.current.push(text);
    setText("");
    setFiles([]);
    field.current?.focus();
    // One after another, in the order in which they were written.
    line.current = line.current.then(async () => {
      open.current = { of: [], key: "" };
      try {
        await onSend({ text, files, options: { ...(model ? { model } : {}), ...(mode ? { mode } : {}) }, key });
      } catch (error) {
        // What was refused is sent anew; of what may have arrived the server carries out one.
        if (isOpen(error)) open.current = { of, key };
        failed(error);
        typed.current = [text, typed.current].filter(Boolean).join("\n");
        setText(typed.current);
        setFiles((now) => [...files, ...now]);
      }
      onWay.current.shift();
      // Sending may have led to another page, which has taken this field away.
      keepDraft(name, [...onWay.current, typed.current].filter(Boolean).join("\n"));
    });
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
