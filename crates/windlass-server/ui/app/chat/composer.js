// The message field. The draft keeps typed text until the server has accepted it, even if the page is reloaded.

import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { get, isOpen } from "../lib/api.js";
import { MODES } from "../lib/modes.js";
import { size } from "../lib/words.js";
import { draftOf, filesOf, keepDraft, keepFiles, parted } from "../state/drafts.js";
import { sendBy } from "../state/look.js";
import { failed, warn } from "../state/notices.js";
import { zone } from "../state/outgoing.js";
import { Icon } from "../view/icon.js";

/** @typedef {import("../state/drafts.js").Sent & {files: File[]}} Going */
/** @typedef {{text: string, files: File[], options: {model?: string, mode?: string, timezone?: string, when_busy?: string}, key: string}} Draft `key`: the idempotency key. */

/** The server's limits: the maximum number of characters of a message, and of attached files. */
const MESSAGE_MAX = 32768;
const FILES_MAX = 20;

/** @type {import("../../vendor/signals.js").Signal<any[]>} */
const models = signal([]);
let asked = false;

/** Renames a file if its name is taken: uploads with the same name overwrite each other. @param {File} file @param {File[]} others */
function named(file, others) {
  const taken = new Set(others.map((one) => one.name));
  if (!taken.has(file.name)) return file;
  const [, stem, end] = /** @type {RegExpExecArray} */ (/^(.*?)(\.[^.]*)?$/s.exec(file.name));
  let number = 2;
  while (taken.has(`${stem} (${number})${end ?? ""}`)) number += 1;
  return new File([file], `${stem} (${number})${end ?? ""}`, { type: file.type, lastModified: file.lastModified });
}

/**
 * Returns the model and mode of a message: the user's choice, or else those of the last message if the model is still
 * available.
 * @param {string | null} model @param {string | null} mode @param {{model: string, mode: string}} was
 */
function resolved(model, mode, was) {
  const wanted = model ?? was.model;
  const isThere = models.value.length === 0 || models.value.some((one) => one.name === wanted && one.available);
  const [withModel, withMode] = [isThere ? wanted : "", mode ?? was.mode];
  return { ...(withModel ? { model: withModel } : {}), ...(withMode ? { mode: withMode } : {}) };
}

/** Accepts files dropped anywhere on the page: otherwise the browser would open them. @param {(files: FileList) => void} add @param {(is: boolean) => void} over */
function useDrop(add, over) {
  const latest = useRef(add);
  latest.current = add;
  // A layout effect runs before the first frame: a later effect would miss a drop on the visible field.
  useLayoutEffect(() => {
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

/** The field takes the focus only from these elements: the user may already type elsewhere. */
const FREE = "body, main, a, h1";

const NOTHING_CHOSEN = { model: "", mode: "" };

/**
 * @param {{name: string, onSend: (draft: Draft) => Promise<void>, onStop?: () => void, busy?: boolean, leaves?: boolean, autofocus?: boolean, was?: {model: string, mode: string}, more?: import("../../vendor/signals.js").Signal<string>}} props
 * `busy`: a run is active, so that a message is queued or steers it; `leaves`: sending opens another page; `was`: model
 * and mode of the last message; `more`: text to append to the field.
 */
export function Composer({ name, onSend, onStop, busy, leaves, autofocus, was = NOTHING_CHOSEN, more }) {
  const kept = useRef(/** @type {ReturnType<typeof draftOf> | null} */ (null));
  kept.current ??= draftOf(name);
  const [last] = kept.current.sent;
  const [text, setText] = useState(kept.current.text);
  const [files, setFiles] = useState(() => filesOf(name));
  /** The user's choices; null if the user has made none. */
  const [model, setModel] = useState(last?.model ?? null);
  const [mode, setMode] = useState(last?.mode ?? null);
  const [over, setOver] = useState(false);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  /** Messages that the server has not accepted yet, in sending order. */
  const line = useRef(/** @type {Going[]} */ ([]));
  /** Messages at the start of the field that may have reached the server, or that waited behind such a message. */
  const open = useRef(/** @type {Going[]} */ (kept.current.sent.map((one) => ({ ...one, files: [] }))));
  const typed = useRef(text);
  typed.current = text;
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    if (autofocus && matchMedia("(hover: hover)").matches && document.activeElement?.matches(FREE)) field.current?.focus();
    if (!asked) {
      asked = true;
      get("/models").then((page) => (models.value = page.data), () => (asked = false));
    }
  }, []);
  const keep = () => {
    const sent = [...line.current, ...open.current];
    const all = [...line.current.map((one) => one.text), typed.current].filter(Boolean).join("\n");
    // A reload drops files, and a message must not be sent again without its files.
    keepDraft(name, all, sent.some((one) => one.files.length > 0) ? [] : sent);
  };
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
  useEffect(() => keepFiles(name, files), [files]);
  const held = useRef(files);
  held.current = files;
  /** @param {Iterable<File>} some */
  const add = (some) => {
    const all = [...some].reduce((all, file) => [...all, named(file, all)], held.current);
    const beyond = all.slice(FILES_MAX).map((file) => file.name);
    held.current = all.slice(0, FILES_MAX);
    setFiles(held.current);
    if (beyond.length > 0) warn(`You can attach up to ${FILES_MAX} files. Not attached: ${beyond.join(", ")}`);
  };
  useDrop(add, setOver);
  const tooLong = [...text].length > MESSAGE_MAX;
  const may = text.trim() !== "" && !tooLong && !(leaves && line.current.length > 0);
  const mayTell = Boolean(busy && onStop);
  /** @param {boolean} [steers] whether the active run receives it after its current step */
  const send = (steers = false) => {
    if (!may) return;
    // Repeat a message with its old options: if the first attempt reached the server, it may have changed the defaults.
    const isTold = (/** @type {Going} */ one) => "when_busy" in one.options;
    const isSame = (/** @type {Going} */ one) => (!mayTell || isTold(one) === steers) && one.model === model && one.mode === mode;
    const { again, ...rest } = parted(open.current, { text, files }, isSame);
    const options = { ...resolved(model, mode, was), ...zone(), ...(steers ? { when_busy: "steer" } : {}) };
    const isMore = rest.text.trim() !== "" || rest.files.length > 0;
    open.current = [];
    const idle = line.current.length === 0;
    line.current.push(...again, ...(isMore ? [{ ...rest, model, mode, options, key: crypto.randomUUID() }] : []));
    typed.current = "";
    setText("");
    setFiles([]);
    field.current?.focus();
    if (idle) carry();
  };
  /** Sends the pending messages one after another. */
  const carry = async () => {
    for (let next = line.current[0]; next; next = line.current[0]) {
      // Until the server responds, the message may have reached it. After a reload, the page must repeat the message
      // with the same key.
      keep();
      try {
        await onSend(next);
        line.current.shift();
      } catch (error) {
        failed(error);
        putBack(isOpen(error));
      }
    }
    // The send may have opened another page and removed this field.
    keep();
  };
  /**
   * Moves a failed message and all later messages to the field, to keep their order.
   * @param {boolean} perhaps whether it may have arrived
   */
  const putBack = (perhaps) => {
    const back = line.current.splice(0);
    // A rejected message gets a new key. A message that may have reached the server keeps its key, so that the server
    // executes it once.
    open.current = perhaps ? back : [];
    typed.current = [...back.map((one) => one.text), typed.current].filter(Boolean).join("\n");
    setText(typed.current);
    held.current = [...back.flatMap((one) => one.files), ...held.current];
    setFiles(held.current);
    keepFiles(name, held.current);
  };
  /** @param {KeyboardEvent} event */
  const pressed = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    const command = event.ctrlKey || event.metaKey;
    // On a touch keyboard, Enter is the only key for a line break.
    const sends = sendBy.value === "enter" && !event.shiftKey && !matchMedia("(pointer: coarse)").matches;
    if (!command && !sends) return;
    event.preventDefault();
    send(command && event.shiftKey && mayTell);
  };
  return html`<form class="composer" data-over=${over} onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    send();
  }}>
    ${files.length > 0 &&
    html`<ul class="chips" aria-label="Files">${files.map((file) => html`<li key=${file.name}>${file.name} <small>${size(file.size)}</small>
      <button type="button" class="plain" aria-label=${`Remove ${file.name}`} onClick=${() => setFiles(files.filter((one) => one !== file))}>×</button></li>`)}</ul>`}
    <textarea ref=${field} data-key="composer" rows="1" aria-label="Message" placeholder=${busy ? "Queue a message…" : "Describe a task…"} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${pressed} onPaste=${(/** @type {ClipboardEvent} */ event) => {
      const pasted = [...(event.clipboardData?.files ?? [])];
      if (pasted.length > 0) {
        event.preventDefault();
        add(pasted);
      }
    }}></textarea>
    ${tooLong && html`<p class="wrong" role="alert">The message has ${[...text].length} characters; the limit is ${MESSAGE_MAX}. Attach it as a file instead.</p>`}
    <div class="row">
      <button type="button" class="plain" aria-label="Attach files" onClick=${() => picker.current?.click()}><${Icon} name="attach" /></button>
      <input ref=${picker} type="file" multiple hidden tabindex="-1" onChange=${(/** @type {any} */ event) => {
        add(event.target.files);
        event.target.value = "";
      }} />
      <select class="quiet-select" aria-label="Mode" title="What the agent may do" value=${mode ?? was.mode} onChange=${(/** @type {any} */ event) => setMode(event.target.value)}>
        ${!(mode ?? was.mode) && html`<option value="">${leaves ? "Default mode" : "Same mode as before"}</option>`}
        ${Object.entries(MODES).map(([name, words]) => html`<option value=${name}>${name}: ${words}</option>`)}
      </select>
      ${models.value.length === 1 && html`<span class="quiet model clip" title=${`Model: ${models.value[0].name}`}>${models.value[0].name}</span>`}
      ${models.value.length > 1 &&
      html`<select aria-label="Model" value=${resolved(model, mode, was).model ?? models.value[0].name} onChange=${(/** @type {any} */ event) => setModel(event.target.value)}>
        ${models.value.map((one) => html`<option value=${one.name} disabled=${!one.available} title=${one.reason}>${one.name}${one.available ? "" : ` (${one.reason})`}</option>`)}
      </select>`}
      <span class="fill"></span>
      ${mayTell && html`<button type="button" class="plain" title="Send after the current step, without stopping the run (Ctrl+Shift+Enter)" disabled=${!may} onClick=${() => send(true)}>Send now</button>`}
      ${mayTell && html`<button type="button" class="stop" data-key="stop" aria-label="Stop" onClick=${onStop}><${Icon} name="stop" size=${15} /> <span class="wide-only">Stop</span></button>`}
      <button type="submit" class="primary round" disabled=${!may} aria-label=${busy ? "Queue message" : "Send"}><${Icon} name="send" /></button>
    </div>
  </form>`;
}
