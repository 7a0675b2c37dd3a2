// A run's journal as spans of time: model calls, calls of tools, waits, and what happened between them.

import { limitAmount, limitName } from "../../lib/limits.js";
import { summary } from "../../state/interrupts.js";

/**
 * @typedef {{kind: "model" | "tool" | "wait" | "mark", name: string, from: number, until: number, state: string, event: any, more: any, call: Call | null}} Span
 * `event`: what it began with; `more`: what it ended with; `call`: of a call of a tool, how that stood by then
 * @typedef {{step: number, spans: Span[]}} Step
 * @typedef {{name: string, asked: any, args: any, changed: "" | "repaired" | "edited", by: string, decided: any[]}} Call
 * `asked`: the arguments as the model wrote them; `args`: those that are sent; `decided`: the events that let it run or not
 */

/** How a call came to its result, where its tool has not simply answered. @type {Record<string, string>} */
const OUTCOMES = {
  refused: "refused",
  unavailable: "its tool was not there",
  denied: "denied",
  cancelled: "cancelled",
  in_doubt: "in doubt",
  told: "told by a person",
  reconciled: "found out",
};

/** What became of a wait, in a word. @type {Record<string, string>} */
const ANSWERS = {
  approve: "approved",
  edit: "changed",
  deny: "denied",
  reply: "answered",
  done: "it was done",
  retry: "again",
  fail: "it failed",
  raise: "raised",
  stop: "stopped",
  withdrawn: "taken back",
};

/** @type {Record<string, string>} */
const CANCELS = {
  requested: "somebody stops the run",
  replaced: "another message takes its place",
  rolled_back: "another message takes its place, and this run leaves the prompt",
  run_timeout: "its time is up",
  limit: "a limit is reached, and nobody raises it",
};

/** Spans of a run's events, by step; what has no end goes on until now. @param {any[]} events @param {number} [now] @returns {{steps: Step[], from: number, until: number}} */
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
    /** Those that go on, by what they are about. @type {Map<string, Span>} */
    this.open = new Map();
    /** The last one of each call. @type {Map<string, Span>} */
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
        this.start(key, `${this.call(key).name}: looked up`, event);
        break;
      case "tool.parked":
        this.end(`t${key}`, "asks", event);
        break;
      case "tool.undispatched":
        this.end(`t${key}`, "not sent", event);
        break;
      case "tool.deferred":
        this.end(`t${key}`, "goes on later", event);
        break;
      case "tool.in_doubt":
        this.end(`t${key}`, "in doubt", event);
        break;
      case "tool.unresolved":
        this.end(`t${key}`, "not found out", event);
        break;
      case "tool.finished":
        this.finish(key, event);
        break;
      default:
        this.beside(event);
    }
  }

  /** What is not about a call alone. @param {any} event */
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
        this.mark(`From here on: ${event.model}`, event.reason, event);
        break;
      case "limit.reached":
        this.mark(`A limit is reached: ${limitName(event)}`, limitAmount(event, event.figure), event);
        break;
      case "cancel.requested":
        this.mark("It is to end", CANCELS[event.reason] ?? event.reason, event);
        break;
      case "window.moved":
        this.mark("Older messages leave the prompt", "", event);
        break;
      case "run.finished":
        for (const key of [...this.open.keys()]) this.end(key, "ended with the run", event);
        break;
    }
  }

  /** @param {string} key @returns {Call} */
  call(key) {
    const known = this.calls.get(key) ?? { name: "a tool", asked: "", args: "", changed: "", by: "", decided: [] };
    this.calls.set(key, known);
    return known;
  }

  /** The calls that a reply asks for. @param {any} event */
  ask(event) {
    let index = 0;
    for (const block of event.message.blocks) {
      if (block.kind === "tool_call") this.calls.set(`${event.step}.${index++}`, { name: block.name, asked: block.asked, args: block.asked, changed: "", by: "", decided: [] });
    }
  }

  /** What people say of a call stands with it. @param {any} event */
  answered(event) {
    const opened = this.open.get(`i${event.interrupt}`)?.event;
    if (opened?.call) this.call(`${opened.call.step}.${opened.call.index}`).decided.push({ ...event, opened });
  }

  /** @param {string} key @param {Span["kind"]} kind @param {string} name @param {any} event @returns {Span} */
  begin(key, kind, name, event) {
    // Whatever bore that name was cut off: its process ended before it could say so.
    this.end(key, "cut off", null, event.at);
    this.now = event.step ?? this.now;
    const step = this.steps.get(this.now) ?? { step: this.now, spans: [] };
    this.steps.set(this.now, step);
    /** @type {Span} */
    const span = { kind, name, from: event.at, until: this.until, state: "goes on", event, more: null, call: null };
    step.spans.push(span);
    this.open.set(key, span);
    return span;
  }

  /** @param {any} event an `interrupt.opened` */
  wait(event) {
    const span = this.begin(`i${event.interrupt}`, "wait", summary(askedOf(event.kind)), { ...event, step: event.call?.step });
    span.state = "waits";
    if (event.call) span.call = copyOf(this.call(`${event.call.step}.${event.call.index}`));
  }

  /** A try at a call. @param {string} key @param {string} name @param {any} event */
  start(key, name, event) {
    const span = this.begin(`t${key}`, "tool", name, event);
    // What is changed later was not sent with this try.
    span.call = copyOf(this.call(key));
    this.last.set(key, span);
  }

  /** @param {string} key @param {any} event */
  finish(key, event) {
    const state = OUTCOMES[event.outcome] ?? (event.error ? "failed" : "done");
    const last = this.last.get(key);
    if (!this.open.has(`t${key}`)) {
      // Said in the same moment, it is the end of what was said before.
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

/** What a wait asks, in the shape of the API's interrupts. @param {any} kind as the journal has it */
export function askedOf(kind) {
  const [name, body] = typeof kind === "string" ? [kind, {}] : (Object.entries(kind ?? {})[0] ?? ["", {}]);
  return /** @type {any} */ ({ kind: name, ...body, [name]: body });
}
