// The entries of a conversation, and the tool calls in them. Each entry and each call has a signal for its changes, so
// that an update does not render a long conversation again.

import { signal } from "../lib/html.js";
import { limitAmount, limitName } from "../lib/limits.js";
import { sentence } from "../lib/words.js";

/** Returns the text of all text blocks, joined. @param {any[]} blocks */
export const textOf = (blocks) =>
  blocks
    .filter((block) => block.kind === "text")
    .map((block) => wordsOf(block.text))
    .join("\n\n");

/** Returns an inline text, or a placeholder for an offloaded text. @param {any} text @returns {string} */
export function wordsOf(text) {
  if (typeof text === "string") return text;
  return text?.blob || text?.digest ? `[long text, not loaded: ${(text.blob ?? text).size_bytes ?? "?"} bytes]` : "";
}

/**
 * Whether all texts are inline: a page of messages has a size limit, and only refers to further texts.
 * @param {any[]} blocks
 */
export const isWhole = (blocks) => blocks.every((block) => block.kind !== "text" || typeof block.text === "string");

/** Participles of the answers to a call. Answers to a limit have no participle. @type {Record<string, string>} */
const WORDS = { approve: "approved", edit: "edited", deny: "denied", reply: "replied", done: "done", retry: "retried", fail: "failed" };

/** @typedef {{by: string, at: number, word: string, selected?: string}} Answered An answer to a call: `word` is its participle, `selected` the chosen option. */

/** A call of a tool. */
export class Call {
  /** @param {string} run @param {any} known @param {string} name @param {string} args as the model wrote them */
  constructor(run, known, name, args) {
    this.rev = signal(0);
    this.run = run;
    this.step = known.step;
    this.index = known.index;
    this.id = known.id ?? "";
    this.tool = name;
    /** Name of the tool server; known only after the call has opened an interrupt. */
    this.server = "";
    this.args = known.arguments ? wordsOf(known.arguments) : args;
    /** The model's arguments if they differ from `args`; otherwise empty. */
    this.asked = known.arguments ? args : "";
    /** @type {"writing" | "waiting" | "asking" | "approved" | "running" | "sleeping" | "in_doubt" | "done"} */
    this.state = known.state ?? "waiting";
    /** @type {string} */
    this.outcome = known.outcome ?? "";
    this.error = Boolean(known.error);
    this.durationMs = known.duration_ms ?? 0;
    this.interrupt = known.interrupt ?? "";
    /** Kind of the call's open interrupt, if this page has received the event. */
    this.asks = "";
    this.progress = "";
    this.until = known.until ?? 0;
    /** Time of the call's last event; 0 if the call was read from the history. */
    this.at = 0;
    /** The rule that determined the gate's verdict. @type {string} */
    this.rule = known.rule ?? "";
    /** The preview that was shown for approval. */
    this.preview = wordsOf(known.preview);
    /** @type {Answered | null} */
    this.answered = known.answered ?? null;
    /** @type {any[] | null} */
    this.result = null;
  }

  get key() {
    return `${this.run}/${this.step}/${this.index}`;
  }

  /** @param {Partial<Call>} change */
  change(change) {
    Object.assign(this, change);
    this.rev.value += 1;
  }

  /** @param {any} update */
  hear(update) {
    if (update.at) this.at = update.at;
    switch (update.type) {
      case "interrupt.opened":
        return this.change({ state: "asking", interrupt: update.interrupt, asks: typeof update.kind === "string" ? update.kind : (Object.keys(update.kind ?? {})[0] ?? "") });
      case "interrupt.closed":
        return this.change({ ...this.answeredBy(update), ...(this.state === "asking" ? { state: update.answer.answer === "approve" ? "approved" : "waiting" } : {}) });
      case "call.judged":
        return this.change({ rule: update.rule, ...(update.arguments ? this.sentAs(update.arguments) : {}) });
      case "call.edited":
        return this.change(this.sentAs(update.arguments));
      case "call.previewed":
        return this.change({ preview: wordsOf(update.preview) });
      case "tool.started":
        return this.change({ state: "running" });
      case "tool.undispatched":
        return this.change({ state: "waiting" });
      case "tool.progress":
        return this.change({ progress: (this.progress + update.text).slice(-4000) });
      case "tool.deferred":
        return this.change({ state: "sleeping", until: update.until });
      case "tool.in_doubt":
      case "tool.unresolved":
        return this.change({ state: "in_doubt" });
      case "tool.finished":
        return this.finish({ content: update.content, error: update.error, outcome: update.outcome, durationMs: update.duration_ms });
      default:
        return undefined;
    }
  }

  /** @param {any} update an `interrupt.closed` */
  answeredBy({ answer, by, at }) {
    const word = WORDS[answer.answer];
    return word ? { answered: { by, at, word, ...(answer.selected ? { selected: answer.selected } : {}) } } : {};
  }

  /** Sets arguments that replace the model's arguments. @param {any} args */
  sentAs(args) {
    return { args: wordsOf(args), asked: this.asked || this.args };
  }

  /** @param {{content: any[], error?: boolean, outcome?: string, durationMs?: number}} how */
  finish({ content, error, outcome, durationMs }) {
    this.change({
      state: "done",
      result: content,
      error: Boolean(error),
      outcome: outcome ?? (this.outcome || "returned"),
      durationMs: durationMs ?? this.durationMs,
    });
  }

  /** Returns the state for display; for a finished call, its outcome. */
  get standing() {
    if (this.state !== "done") return this.state;
    if (this.outcome === "denied") return "denied";
    if (this.outcome === "cancelled") return "cancelled";
    return this.error || this.outcome === "refused" || this.outcome === "in_doubt" ? "failed" : "done";
  }
}

/**
 * @typedef {{type: "text", text: string} | Thought | {type: "call", call: Call}} Part
 * @typedef {{type: "reasoning", text: string, since: number, ms: number}} Thought `since`: its start, 0 if unknown or over; `ms`: its duration, 0 if unknown
 */

/** An entry: a user's message, a step of the agent, or a note. */
export class Entry {
  /** @param {string} key @param {"user" | "assistant" | "note"} role @param {any} known */
  constructor(key, role, known) {
    this.rev = signal(0);
    this.key = key;
    this.role = role;
    this.seq = known.seq ?? 0;
    this.at = known.at ?? Date.now();
    this.run = known.run ?? "";
    this.step = known.step;
    this.id = known.id ?? "";
    this.by = known.by ?? "";
    /** Only for a user's message: the model and mode of its run. */
    this.model = known.model ?? "";
    this.mode = known.mode ?? "";
    /** Only for a user's message: whether it steered a run that was already active. */
    this.steers = false;
    /** @type {"live" | "complete" | "partial" | "fallback" | "withdrawn"} */
    this.status = known.status ?? "complete";
    /** Why the model stopped. @type {any} */
    this.stop = known.stop ?? null;
    /** Position (`seq`) of the `step.started` that the deltas of this entry refer to. */
    this.begun = 0;
    /** @type {Part[]} */
    this.parts = [];
    /** @type {any} */
    this.usage = known.usage ?? null;
    this.costMicro = known.cost_micro_usd ?? known.cost ?? null;
    this.ttftMs = known.ttft_ms ?? null;
    this.durationMs = known.duration_ms ?? null;
    /** @type {any} */
    this.totals = null;
    /** Only for a note: whether it reports that a run failed or was cancelled. */
    this.ends = false;
    /** When this page received the step's start and its first delta; 0 if the page was opened later. */
    this.heardAt = 0;
    this.firstAt = 0;
    /** Number of characters in all deltas of the step, and in those that the snapshot contains. */
    this.size = 0;
    this.sizeBefore = 0;
    this.trouble = "";
    this.tone = "info";
    /** @type {any[]} */
    this.media = [];
    this.isWhole = true;
  }

  /** @param {any} message as the API returns it */
  static ofMessage(message) {
    const step = message.calls?.[0]?.step;
    const entry = new Entry(`${message.role}-${message.id ?? message.seq}`, message.role === "user" ? "user" : "assistant", { ...message, step });
    entry.read(message.blocks, message.calls ?? [], message.thoughts_ms);
    return entry;
  }

  /** @param {any} update a `step.started`, or the first event of the step on this page */
  static ofStep(update) {
    const entry = new Entry(`step-${update.run}-${update.step}`, "assistant", { ...update, status: "live" });
    entry.begin(update);
    return entry;
  }

  /** @param {string} key @param {string} tone @param {string} text @param {any} [known] */
  static note(key, tone, text, known = {}) {
    const entry = new Entry(key, "note", { ...known, status: "complete" });
    entry.tone = tone;
    entry.parts = [{ type: "text", text }];
    return entry;
  }

  /** Returns the note for an event, or null for most events. @param {any} update */
  static remark(update) {
    const note = (/** @type {string} */ tone, /** @type {string} */ text) => Entry.note(`n${update.seq}`, tone, text, update);
    const ends = (/** @type {string} */ tone, /** @type {string} */ text) => Object.assign(note(tone, text), { ends: true });
    switch (update.type) {
      case "limit.reached":
        return note("warning", `Limit reached: ${limitName(update)} (${limitAmount(update, update.figure)}).`);
      case "model.switched":
        return note("info", `Model switched to ${update.model}${update.reason ? ` (${update.reason})` : ""}`);
      case "run.finished":
        if (update.status === "failed") return ends("error", update.error?.message ?? "The run failed.");
        return update.status === "cancelled" ? ends("info", "Stopped.") : null;
      default:
        return null;
    }
  }

  /** @param {any} change */
  set(change) {
    Object.assign(this, change);
    this.rev.value += 1;
  }

  *calls() {
    for (const part of this.parts) if (part?.type === "call") yield part.call;
  }

  /** @returns {Thought[]} */
  thoughts() {
    return this.parts.flatMap((part) => (part?.type === "reasoning" ? [part] : []));
  }

  get text() {
    return this.parts.flatMap((part) => (part?.type === "text" ? [part.text] : [])).join("\n\n");
  }

  /** @param {any[]} blocks @param {any[]} calls @param {number[]} [thoughtsMs] durations of the thoughts, in order */
  read(blocks, calls, thoughtsMs = []) {
    const known = new Map(this.callsById());
    const times = [...thoughtsMs];
    let index = 0;
    this.parts = [];
    this.media = blocks.filter((block) => block.kind === "image" || block.kind === "file");
    this.isWhole = isWhole(blocks);
    for (const block of blocks) {
      if (block.kind === "text") {
        const text = wordsOf(block.text);
        if (text) this.parts.push({ type: "text", text });
      } else if (block.kind === "reasoning") {
        const text = wordsOf(block.text);
        if (text) this.parts.push({ type: "reasoning", text, since: 0, ms: times.shift() ?? 0 });
      } else if (block.kind === "tool_call") {
        const stored = calls.find((call) => call.id === block.id) ?? { step: this.step, index, id: block.id };
        const call = known.get(block.id) ?? new Call(this.run, stored, block.name, wordsOf(block.asked));
        this.parts.push({ type: "call", call });
        index += 1;
      }
    }
  }

  /** @returns {[string, Call][]} */
  callsById() {
    return [...this.calls()].filter((call) => call.id && (call.result || call.state !== "waiting")).map((call) => [call.id, call]);
  }

  /** Starts an attempt at the step, and drops the output of an earlier attempt. @param {any} update */
  begin(update) {
    if (this.status === "complete") return;
    const fresh = { parts: [], trouble: "", firstAt: 0, size: 0, sizeBefore: 0 };
    this.set({ ...fresh, begun: update.seq, at: update.at ?? this.at, model: update.model ?? this.model, status: "live" });
  }

  /** Adds a delta or a snapshot. @param {any} update */
  grow(update) {
    if (this.status !== "live") return;
    this.firstAt ||= Date.now();
    if (update.type === "message.snapshot") {
      this.parts = [];
      this.size = 0;
      for (const part of update.parts) this.put(part.part, part.type, part.text ?? "", part.name, part.arguments ?? "");
      // A first thought that is still open started with the step. The durations of the other thoughts are unknown.
      const last = this.parts.at(-1);
      for (const thought of this.thoughts()) Object.assign(thought, { since: thought === last && this.parts.length === 1 ? this.at : 0, ms: 0 });
      this.sizeBefore = this.size;
    } else {
      const type = { "message.delta": "text", "reasoning.delta": "reasoning", "call.delta": "call" }[/** @type {string} */ (update.type)];
      this.put(update.part, type ?? "text", update.text ?? "", update.name, update.arguments ?? "");
    }
    this.rev.value += 1;
  }

  /** @param {number} at @param {string} type @param {string} text @param {string | undefined} name @param {string} args */
  put(at, type, text, name, args) {
    this.size += text.length + args.length;
    const known = this.parts[at];
    // A thought ends with the first delta of the next part.
    for (const thought of this.thoughts()) if (thought !== known && thought.since) Object.assign(thought, { ms: Date.now() - thought.since, since: 0 });
    if (type === "call") {
      if (known?.type === "call") {
        known.call.change({ args: known.call.args + args, tool: known.call.tool || name || "" });
      } else {
        // Number the calls as the reply does, so that an opened card stays the same card.
        const index = [...this.calls()].length;
        this.parts[at] = { type: "call", call: new Call(this.run, { step: this.step, index, state: "writing" }, name ?? "", args) };
      }
    } else if (known && known.type !== "call") this.parts[at] = { ...known, text: known.text + text };
    else this.parts[at] = type === "reasoning" ? { type, text, since: Date.now(), ms: 0 } : { type: "text", text };
  }

  /** Handles the complete reply of the step. @param {any} update */
  reply(update) {
    this.status = "complete";
    this.seq = update.seq;
    this.read(update.message.blocks, [], update.thoughts_ms);
    const cancelled = update.stop === "cancelled";
    this.set({
      status: cancelled ? "partial" : "complete",
      stop: update.stop,
      usage: update.usage,
      costMicro: update.cost ?? null,
      ttftMs: update.ttft_ms ?? null,
      durationMs: update.duration_ms ?? null,
      trouble: "",
    });
  }

  /** Cancels the calls whose arguments are incomplete. */
  giveUp() {
    for (const call of this.calls()) if (call.state === "writing") call.change({ state: "done", outcome: "cancelled" });
  }

  /** @param {any} update a `step.failed` */
  fail(update) {
    this.giveUp();
    const partial = wordsOf(update.partial);
    const parts = partial ? [{ type: "text", text: partial }] : this.parts;
    this.set({ status: "partial", parts, trouble: sentence(update.message) });
  }
}
