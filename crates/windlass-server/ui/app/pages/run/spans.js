// A run's journal as time spans: model calls, tool calls, waits, and single events.

import { limitAmount, limitName } from "../../lib/limits.js";
import { summary } from "../../state/interrupts.js";

/**
 * @typedef {{kind: "model" | "tool" | "wait" | "mark", name: string, from: number, until: number, state: string, event: any, more: any, call: Call | null}} Span
 * `event`: its first event; `more`: its last event; `call`: for a tool call or its approval, a copy of the call at that time
 * @typedef {{step: number, spans: Span[]}} Step
 * @typedef {{name: string, asked: any, args: any, changed: "" | "repaired" | "edited", by: string, decided: any[]}} Call
 * `asked`: the model's arguments; `args`: the arguments that are sent; `decided`: verdicts, grants and answers
 */

/** Labels of outcomes other than a plain result. @type {Record<string, string>} */
const OUTCOMES = {
  refused: "rejected",
  unavailable: "tool unavailable",
  denied: "denied",
  cancelled: "cancelled",
  in_doubt: "in doubt",
  told: "reported by a user",
  reconciled: "reconciled",
};

/** Labels of the answers that end a wait. @type {Record<string, string>} */
const ANSWERS = {
  approve: "approved",
  edit: "edited",
  deny: "denied",
  reply: "answered",
  done: "marked as done",
  retry: "retried",
  fail: "marked as failed",
  raise: "raised",
  stop: "stopped",
  withdrawn: "withdrawn",
};

/** @type {Record<string, string>} */
const CANCELS = {
  requested: "stopped by a user",
  replaced: "replaced by another message",
  rolled_back: "replaced by another message; this run is removed from the prompt",
  run_timeout: "run time limit reached",
  limit: "limit reached and not raised",
};

/**
 * Returns the spans of a run's events, by step. An open span lasts until `now`.
 * @param {any[]} events @param {number} [now] @returns {{steps: Step[], from: number, until: number}}
 */
export function spansOf(events, now = Date.now()) {
  const last = events.at(-1);
  const reading = new Reading(last?.type === "run.finished" ? last.at : Math.max(now, last?.at ?? 0));
  for (const event of events) reading.hear(event);
  return { steps: [...reading.steps.values()].sort((a, b) => a.step - b.step), from: events[0]?.at ?? 0, until: reading.until };
}

class Reading {
  /** @param {number} until */
  constructor(until) {
    this.until = until;
    this.now = 1;
    /** @type {Map<number, Step>} */
    this.steps = new Map();
    /** Open spans, by the key of the measured operation. @type {Map<string, Span>} */
    this.open = new Map();
    /** The last span of each call. @type {Map<string, Span>} */
    this.last = new Map();
    /** @type {Map<string, Call>} */
    this.calls = new Map();
  }

  /** @param {any} event */
  hear(event) {
    const key = `${event.step}.${event.index}`;
    switch (event.type) {
      case "step.started":
        this.begin("model", "model", event.model, event);
        break;
      case "step.replied":
        this.end("model", "replied", event);
        this.ask(event);
        break;
      case "step.failed":
        this.end("model", "failed", event);
        break;
      case "call.judged":
        if (event.arguments !== undefined) Object.assign(this.call(key), { args: event.arguments, changed: "repaired", by: "" });
        this.call(key).decided.push(event);
        break;
      case "call.edited":
        Object.assign(this.call(key), { args: event.arguments, changed: "edited", by: event.by });
        break;
      case "grant.used":
        this.call(key).decided.push(event);
        break;
      case "tool.started":
        this.start(key, this.call(key).name, event);
        break;
      case "tool.reconciling":
        this.start(key, `${this.call(key).name}: reconcile`, event);
        break;
      case "tool.parked":
        this.end(`t${key}`, "needs input", event);
        break;
      case "tool.undispatched":
        this.end(`t${key}`, "not sent", event);
        break;
      case "tool.deferred":
        this.end(`t${key}`, "scheduled", event);
        break;
      case "tool.in_doubt":
        this.end(`t${key}`, "in doubt", event);
        break;
      case "tool.unresolved":
        this.end(`t${key}`, "not reconciled", event);
        break;
      case "tool.finished":
        this.finish(key, event);
        break;
      default:
        this.beside(event);
    }
  }

  /** Handles events that do not belong to a single call. @param {any} event */
  beside(event) {
    switch (event.type) {
      case "interrupt.opened":
        this.wait(event);
        break;
      case "interrupt.voted":
        this.answered(event);
        break;
      case "interrupt.closed":
        this.answered(event);
        this.end(`i${event.interrupt}`, ANSWERS[event.answer?.answer] ?? "answered", event);
        break;
      case "model.switched":
        this.mark(`Model switched to ${event.model}`, event.reason, event);
        break;
      case "limit.reached":
        this.mark(`Limit reached: ${limitName(event)}`, limitAmount(event, event.figure), event);
        break;
      case "cancel.requested":
        this.mark("Cancellation requested", CANCELS[event.reason] ?? event.reason, event);
        break;
      case "window.moved":
        this.mark("Older messages removed from the prompt", "", event);
        break;
      case "run.finished":
        for (const key of [...this.open.keys()]) this.end(key, "ended with the run", event);
        break;
    }
  }

  /** @param {string} key @returns {Call} */
  call(key) {
    const known = this.calls.get(key) ?? { name: "Tool call", asked: "", args: "", changed: "", by: "", decided: [] };
    this.calls.set(key, known);
    return known;
  }

  /** Registers the calls of a reply. @param {any} event */
  ask(event) {
    let index = 0;
    for (const block of event.message.blocks) {
      if (block.kind === "tool_call") this.calls.set(`${event.step}.${index++}`, { name: block.name, asked: block.asked, args: block.asked, changed: "", by: "", decided: [] });
    }
  }

  /** Adds an answer to the history of its call. @param {any} event */
  answered(event) {
    const opened = this.open.get(`i${event.interrupt}`)?.event;
    if (opened?.call) this.call(`${opened.call.step}.${opened.call.index}`).decided.push({ ...event, opened });
  }

  /** @param {string} key @param {Span["kind"]} kind @param {string} name @param {any} event @returns {Span} */
  begin(key, kind, name, event) {
    // An open span with this key was interrupted: its process ended without recording the end.
    this.end(key, "interrupted", null, event.at);
    this.now = event.step ?? this.now;
    const step = this.steps.get(this.now) ?? { step: this.now, spans: [] };
    this.steps.set(this.now, step);
    /** @type {Span} */
    const span = { kind, name, from: event.at, until: this.until, state: "running", event, more: null, call: null };
    step.spans.push(span);
    this.open.set(key, span);
    return span;
  }

  /** @param {any} event an `interrupt.opened` */
  wait(event) {
    const span = this.begin(`i${event.interrupt}`, "wait", summary(askedOf(event.kind)), { ...event, step: event.call?.step });
    span.state = "waiting";
    if (event.call) span.call = copyOf(this.call(`${event.call.step}.${event.call.index}`));
  }

  /** Starts the span of an attempt at a call. @param {string} key @param {string} name @param {any} event */
  start(key, name, event) {
    const span = this.begin(`t${key}`, "tool", name, event);
    // Later edits do not belong to this attempt.
    span.call = copyOf(this.call(key));
    this.last.set(key, span);
  }

  /** @param {string} key @param {any} event */
  finish(key, event) {
    const state = OUTCOMES[event.outcome] ?? (event.error ? "failed" : "done");
    const last = this.last.get(key);
    if (!this.open.has(`t${key}`)) {
      // An event with the time of the previous span's end belongs to that span.
      if (last && last.until === event.at) return void Object.assign(last, { state, more: event });
      this.start(key, this.call(key).name, event);
    }
    return this.end(`t${key}`, state, event);
  }

  /** @param {string} name @param {string} state @param {any} event */
  mark(name, state, event) {
    this.begin("mark", "mark", name, event);
    this.end("mark", state, event);
  }

  /** @param {string} key @param {string} state @param {any} event @param {number} [at] */
  end(key, state, event, at = event?.at) {
    const span = this.open.get(key);
    if (span) Object.assign(span, { until: at, state, more: event });
    this.open.delete(key);
  }
}

/** @param {Call} call @returns {Call} */
const copyOf = (call) => ({ ...call, decided: [...call.decided] });

/** Returns an interrupt's kind in the shape of the API. @param {any} kind from the journal */
export function askedOf(kind) {
  const [name, body] = typeof kind === "string" ? [kind, {}] : (Object.entries(kind ?? {})[0] ?? ["", {}]);
  return /** @type {any} */ ({ kind: name, ...body, [name]: body });
}
