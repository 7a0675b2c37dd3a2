// The field that messages are written in. What is typed stays there until the server has taken it, and over a reload.

import { html, signal, useEffect, useRef, useState } from "../lib/html.js";
import { get, isOpen } from "../lib/api.js";
import { size } from "../lib/words.js";
import { draftOf, keepDraft } from "../state/drafts.js";
import { sendBy } from "../state/look.js";
import { failed, warn } from "../state/notices.js";
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
 * What a message is sent with: what is chosen here, else what the last one chose, where that is still to be had.
 * @param {string | null} model @param {string | null} mode @param {{model: string, mode: string}} was
 */
function resolved(model, mode, was) {
  const wanted = model ?? was.model;
  const isThere = models.value.length === 0 || models.value.some((one) => one.name === wanted && one.available);
  const [withModel, withMode] = [isThere ? wanted : "", mode ?? was.mode];
  return { ...(withModel ? { model: withModel } : {}), ...(withMode ? { mode: withMode } : {}) };
}

/** Takes files that are dropped anywhere on the page: else the browser would leave it for them. @param {(files: FileList) => void} add @param {(is: boolean) => void} over */
function useDrop(add, over) {
  const latest = useRef(add);
  latest.current = add;
  useEffect(() => {
    const bears = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files") ?? false;
    const moved = (/** @type {DragEvent} */ event) => {
      if (!bears(event)) return;
      event.preventDefault();
      over(true);
    };
    const left = (/** @type {DragEvent} */ event) => event.relatedTarget === null && over(false);
    const dropped = (/** @type {DragEvent} */ event) => {
      over(false);
      if (!bears(event) || !event.dataTransfer) return;
      event.preventDefault();
      latest.current(event.dataTransfer.files);
    };
    document.addEventListener("dragover", moved);
    document.addEventListener("dragleave", left);
    document.addEventListener("drop", dropped);
    return () => {
      document.removeEventListener("dragover", moved);
      document.removeEventListener("dragleave", left);
      document.removeEventListener("drop", dropped);
    };
  }, []);
}

const NOTHING_CHOSEN = { model: "", mode: "" };

/**
 * @param {{name: string, onSend: (draft: Draft) => Promise<void>, onStop?: () => void, busy?: boolean, leaves?: boolean, autofocus?: boolean, was?: {model: string, mode: string}, more?: import("../../vendor/signals.js").Signal<string>}} props
 * `busy`: a run is active, so that a message waits behind it; `leaves`: sending leads to another page; `was`: what the
 * last message chose; `more`: text from elsewhere, which is taken into the field.
 */
export function Composer({ name, onSend, onStop, busy, leaves, autofocus, was = NOTHING_CHOSEN, more }) {
  const kept = useRef(/** @type {ReturnType<typeof draftOf> | null} */ (null));
  kept.current ??= draftOf(name);
  const { sent } = kept.current;
  const [text, setText] = useState(kept.current.text);
  const [files, setFiles] = useState(/** @type {File[]} */ ([]));
  /** What is chosen here; null where nothing is yet. */
  const [model, setModel] = useState(sent?.model ?? null);
  const [mode, setMode] = useState(sent?.mode ?? null);
  const [over, setOver] = useState(false);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  /** Texts that the server has not taken yet, and what stands in the field. */
  const onWay = useRef(/** @type {string[]} */ ([]));
  const typed = useRef(text);
  typed.current = text;
  const line = useRef(Promise.resolve());
  /** What was sent last and perhaps has arrived, with its key. @type {{current: (import("../state/drafts.js").Sent & {files: File[]}) | null}} */
  const open = useRef(sent && { ...sent, files: [] });
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    if (autofocus && matchMedia("(hover: hover)").matches) field.current?.focus();
    if (!asked) {
      asked = true;
      get("/models").then((page) => (models.value = page.data), () => (asked = false));
    }
  }, []);
  const keep = () => keepDraft(name, [...onWay.current, typed.current].filter(Boolean).join("\n"), open.current?.files.length === 0 ? open.current : null);
  useEffect(() => {
    keep();
    const own = field.current;
    if (!own) return;
    own.style.height = "auto";
    own.style.height = `${Math.min(own.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);
  useEffect(() => {
    if (!more?.value) return;
    setText([typed.current, more.value].filter(Boolean).join("\n"));
    more.value = "";
  }, [more?.value]);
  const held = useRef(files);
  held.current = files;
  /** @param {Iterable<File>} some */
  const add = (some) => {
    const all = [...some].reduce((all, file) => [...all, named(file, all)], held.current);
    const beyond = all.slice(FILES_MAX).map((file) => file.name);
    held.current = all.slice(0, FILES_MAX);
    setFiles(held.current);
    if (beyond.length > 0) warn(`At most ${FILES_MAX} files go with a message. Left out: ${beyond.join(", ")}`);
  };
  useDrop(add, setOver);
  const tooLong = [...text].length > MESSAGE_MAX;
  const may = text.trim() !== "" && !tooLong && !(leaves && onWay.current.length > 0);
  const send = () => {
    if (!may) return;
    const last = open.current;
    const same = last && last.text === text && last.model === model && last.mode === mode && last.files.length === files.length && last.files.every((file, at) => file === files[at]);
    // What is sent again is sent as it was: what counts for the last message may have changed with its arrival.
    const { options, key } = same ? last : { options: resolved(model, mode, was), key: crypto.randomUUID() };
    onWay.current.push(text);
    setText("");
    setFiles([]);
    field.current?.focus();
    // One after another, in the order in which they were written.
    line.current = line.current.then(async () => {
      // Until the server has answered, it may have arrived, also where this page is loaded anew meanwhile.
      open.current = { text, files, model, mode, options, key };
      keep();
      try {
        await onSend({ text, files, options, key });
        open.current = null;
      } catch (error) {
        // What was refused is sent anew; of what may have arrived the server carries out one.
        if (!isOpen(error)) open.current = null;
        failed(error);
        typed.current = [text, typed.current].filter(Boolean).join("\n");
        setText(typed.current);
        setFiles((now) => [...files, ...now]);
      }
      onWay.current.shift();
      // Sending may have led to another page, which has taken this field away.
      keep();
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
      <select class="quiet-select" aria-label="Mode" title="What the agent may do" value=${mode ?? was.mode} onChange=${(/** @type {any} */ event) => setMode(event.target.value)}>
        ${!(mode ?? was.mode) && html`<option value="">${leaves ? "usual mode" : "mode as before"}</option>`}
        ${MODES.map(([name, words]) => html`<option value=${name}>${name}: ${words}</option>`)}
      </select>
      ${models.value.length > 1 &&
      html`<select aria-label="Model" value=${resolved(model, mode, was).model ?? models.value[0].name} onChange=${(/** @type {any} */ event) => setModel(event.target.value)}>
        ${models.value.map((one) => html`<option value=${one.name} disabled=${!one.available} title=${one.reason}>${one.name}${one.available ? "" : ` (${one.reason})`}</option>`)}
      </select>`}
      <span class="fill"></span>
      ${busy && onStop && html`<button type="button" class="stop" data-key="stop" onClick=${onStop}><${Icon} name="stop" size=${15} /> Stop</button>`}
      <button type="submit" class="primary round" disabled=${!may} aria-label=${busy ? "Queue the message" : "Send"}><${Icon} name="send" /></button>
    </div>
  </form>`;
}
