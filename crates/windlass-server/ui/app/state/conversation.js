// One conversation: its state, folded from its messages and then from each event of its stream.
//
// The browser stores no part of it: a reload reads the journal again, even during a reply.

import { get, isAborted, post, Problem, query, signedIn, wait } from "../lib/api.js";
import { batch, computed, signal } from "../lib/html.js";
import { follow } from "../lib/stream.js";
import { retrying } from "../lib/words.js";
import { Call, Entry, textOf } from "./entry.js";
import { pulse, Sums, took } from "./figures.js";
import { Rollback } from "./fork.js";
import * as inbox from "./inbox.js";
import { retryOf, underWay } from "./journal.js";
import { Line } from "./line.js";
import { Sending } from "./sending.js";
import { isAdmin, me } from "./session.js";
import { note as noteThread } from "./threads.js";

/** Number of messages of the first page, and of each older page. */
const FIRST_PAGE = 50;
const PAGE = 200;
/** Delay of a retry after a failed read, in milliseconds. */
const AGAIN_MS = 3000;
/** Maximum time that updates wait for an animation frame, in milliseconds: a hidden page has no frames. */
const UNSEEN_MS = 250;
/** Interval between updates of the current reply's figures, in milliseconds. (SK-U9) */
const PULSE_MS = 200;

/** Whether the error is temporary, so that a retry may succeed. @param {unknown} error */
export const passes = (error) => !(error instanceof Problem) || error.status >= 500;

/** Whether the user owns or administers a conversation. @param {string} owner */
const looksAfter = (owner) => owner === me.value?.id || isAdmin.value;

/** @typedef {import("./journal.js").Retry} Retry */

/** The conversation on the page. @type {import("../../vendor/signals.js").Signal<Conversation | null>} */
export const shown = signal(null);

/** The client's view of a thread. */
export class Conversation {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** @type {import("../../vendor/signals.js").Signal<Entry[]>} */
    this.entries = signal([]);
    /** Number of entries from older pages, which precede the first page. */
    this.prepended = 0;
    /** The entry of the current reply. @type {import("../../vendor/signals.js").Signal<Entry | null>} */
    this.live = signal(null);
    /** Figures of the last reply. @type {import("../../vendor/signals.js").Signal<import("./figures.js").Last | null>} */
    this.last = signal(null);
    /** @type {import("../../vendor/signals.js").Signal<import("./figures.js").Pulse | null>} */
    this.pulse = signal(null);
    this.pulsed = 0;
    /** The planned rollback, which takes effect with the next message. */
    this.rollback = new Rollback(id);
    /** Model and mode of the last message. @type {import("../../vendor/signals.js").Signal<{model: string, mode: string}>} */
    this.chosen = signal({ model: "", mode: "" });
    /** Text to append to the composer. */
    this.more = signal("");
    /** The latest announcement for screen readers. @type {import("../../vendor/signals.js").Signal<{words: string} | null>} */
    this.news = signal(null);
    /** Whether the interrupts have been read. */
    this.asks = signal(false);
    this.title = signal("");
    this.status = signal("");
    this.owner = signal("");
    /** The parent and position of a fork. @type {import("../../vendor/signals.js").Signal<{thread: string, until: number} | null>} */
    this.origin = signal(null);
    this.ready = signal(false);
    this.connected = signal(true);
    this.hasOlder = signal(false);
    /** The error of the last read of an older page. @type {import("../../vendor/signals.js").Signal<unknown>} */
    this.olderFailure = signal(null);
    /** @type {import("../../vendor/signals.js").Signal<unknown>} */
    this.failure = signal(null);
    /** The pending retry of a failed model call. @type {import("../../vendor/signals.js").Signal<Retry | null>} */
    this.retry = signal(null);
    /** The active run. @type {import("../../vendor/signals.js").Signal<{id: string, since: number} | null>} */
    this.run = signal(null);
    this.open = computed(() => inbox.inbox.value.filter((open) => open.thread === this.id));
    /** Whether the user owns or administers the conversation. Other readers see it because it is shared. */
    this.isMine = computed(() => looksAfter(this.owner.value));
    /** Whether a reply is streaming and no interrupt is open. */
    this.isStreaming = computed(() => this.live.value !== null && this.status.value === "running" && this.open.value.length === 0);
    this.isActive = computed(() => !["", "idle"].includes(this.status.value));
    /** The run of the newest user message. */
    this.newest = computed(() => this.entries.value.findLast((one) => one.role === "user")?.run ?? "");
    this.stop = new AbortController();
    this.sums = new Sums(id, this.stop.signal);
    this.line = new Line(id, this.stop.signal);
    this.queue = this.line.waiting;
    this.sending = new Sending(id, (message) => this.entries.value.some((one) => one.id === message) || this.line.find(message) !== undefined);
    /** @type {Map<string, Call>} */
    this.calls = new Map();
    /** Results of calls on an older page, by run and call id. @type {Map<string, {content: any[], error: boolean}>} */
    this.unclaimed = new Map();
    /** The calls that interrupts refer to. @type {import("../../vendor/signals.js").Signal<Map<string, Call>>} */
    this.asking = signal(new Map());
    /** Messages newer than the loaded head, by id: the event that dequeues one has only its id. @type {Map<string, any>} */
    this.later = new Map();
    /** @type {import("../lib/stream.js").Update[]} */
    this.pending = [];
    this.frame = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** Cursor of the next older page. @type {string | undefined} */
    this.cursor = undefined;
    /** @type {Promise<void> | undefined} */
    this.reading = undefined;
    /** @type {Promise<void> | undefined} */
    this.asked = undefined;
    this.askAgain = false;
  }

  /** Reads the conversation and follows its stream; retries after temporary errors. */
  async begin() {
    this.failure.value = null;
    while (!this.stop.signal.aborted) {
      try {
        const head = await this.load();
        const hear = {
          told: (/** @type {any[]} */ updates) => this.told(updates),
          connected: (/** @type {boolean} */ is) => (this.connected.value = is),
        };
        await follow(`/threads/${this.id}/stream`, `${head}.0`, hear, this.stop.signal);
      } catch (error) {
        if (this.stop.signal.aborted) return;
        if (error instanceof Problem && error.status === 401) {
          // Wait until the user has signed in again in a dialog, then read the conversation again.
          await signedIn(this.stop.signal).catch(() => {});
          continue;
        }
        this.failure.value = error;
        if (!passes(error)) return;
        await wait(AGAIN_MS, this.stop.signal).catch(() => {});
      }
    }
  }

  /** Reads the conversation, and returns the journal position of the loaded state. @returns {Promise<number>} */
  async load() {
    const stop = this.stop.signal;
    const thread = await get(`/threads/${this.id}`, { stop });
    const page = await get(`/threads/${this.id}/messages${query({ limit: FIRST_PAGE })}`, { stop });
    const isMine = looksAfter(thread.owner);
    const going = ["", "idle"].includes(thread.status) ? null : await underWay(this.id, thread.head, isMine, stop);
    const chosen = await this.lastChosen(page.data, isMine);
    const growing = this.live.value;
    batch(() => {
      // Set the owner together with `chosen`: the owner makes the composer appear, which needs the last model and mode.
      this.owner.value = thread.owner;
      this.title.value = thread.title ?? "";
      this.origin.value = thread.forked_from;
      this.chosen.value = chosen;
      this.status.value = thread.status;
      this.hasOlder.value = Boolean(page.next_cursor);
      this.olderFailure.value = null;
      this.cursor = page.next_cursor;
      this.prepended = 0;
      this.queue.value = [];
      this.last.value = null;
      this.calls.clear();
      this.unclaimed.clear();
      // The stream delivers the messages after the head.
      this.entries.value = this.read(page.data.filter((/** @type {any} */ message) => message.seq <= thread.head));
      for (const message of page.data) if (message.seq > thread.head) this.later.set(message.id, message);
      this.run.value = going && { id: going.id, since: going.since };
      this.retry.value = null;
      if (going?.failed) this.failed(going.failed);
      // Keep a reply that is already shown: the stream sends its text again only after it has connected.
      if (growing && growing.begun === going?.step?.seq) this.add(growing);
      else if (going?.step) this.step(going.step);
      // A message contains the results of a step only after the last result has arrived.
      for (const event of going?.after ?? []) if (event.type === "tool.finished") this.hear(event);
      this.failure.value = null;
      this.ready.value = true;
    });
    this.ask();
    this.sums.read();
    if (isMine) this.line.places();
    return thread.head;
  }

  /** Model and mode of the last message, queued or delivered. @param {any[]} messages @param {boolean} isMine */
  async lastChosen(messages, isMine) {
    const of = (/** @type {string} */ field) => messages.findLast((message) => message.role === "user" && message[field])?.[field];
    // If a run has many steps, its message may be on an older page.
    const runs = of("model") || !isMine ? [] : (await get(`/runs${query({ thread: this.id, limit: 1 })}`, { stop: this.stop.signal })).data;
    return { model: of("model") ?? runs[0]?.model ?? "", mode: of("mode") ?? "" };
  }

  /** Stops following the conversation. The run continues on the server. */
  end() {
    this.stop.abort();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }

  /** Reads the next older page, if there is one. Concurrent callers share the request. @returns {Promise<void>} */
  older() {
    if (!this.hasOlder.value) return Promise.resolve();
    this.reading ??= this.readOlder().finally(() => (this.reading = undefined));
    return this.reading;
  }

  async readOlder() {
    this.olderFailure.value = null;
    try {
      const page = await get(`/threads/${this.id}/messages${query({ limit: PAGE, cursor: this.cursor })}`, { stop: this.stop.signal });
      batch(() => {
        const last = this.last.value;
        const older = this.read(page.data);
        // Messages of this page that steered a run which started on the older page.
        const run = older.findLast((one) => one.run)?.run;
        for (const one of this.entries.value) {
          if (one.run && one.run !== run) break;
          if (one.role === "user") one.set({ steers: true });
        }
        this.last.value = last ?? this.last.value;
        this.entries.value = [...older, ...this.entries.value];
        this.prepended += older.length;
        this.cursor = page.next_cursor;
        this.hasOlder.value = Boolean(page.next_cursor);
      });
    } catch (error) {
      if (!isAborted(error)) this.olderFailure.value = error;
      throw error;
    }
  }

  /** Reads a page of messages that precedes the entries already shown. @param {any[]} messages @returns {Entry[]} */
  read(messages) {
    /** @type {Entry[]} */
    const entries = [];
    /** The last call with each id: a model may reuse an id. @type {Map<string, Call>} */
    const asked = new Map();
    const later = this.unclaimed;
    this.unclaimed = new Map();
    for (const message of messages) {
      if (message.role === "tool") {
        for (const block of message.blocks) {
          if (block.kind !== "tool_result") continue;
          const [key, result] = [`${message.run}/${block.call_id}`, { content: block.content, error: block.error }];
          const call = asked.get(key);
          if (call) call.finish(result);
          else this.unclaimed.set(key, result);
        }
      } else if (message.role === "user" && message.status === "queued") {
        this.line.add({ id: message.id, queued: { message, by: message.by, place: "" } }, message);
      } else {
        const entry = Entry.ofMessage(message);
        entry.steers = entry.role === "user" && entries.some((one) => one.run === entry.run);
        this.know(entry);
        for (const call of entry.calls()) asked.set(`${entry.run}/${call.id}`, call);
        this.last.value = took(entry) ?? this.last.value;
        entries.push(entry);
      }
      // Notes such as the end of a run follow its last message.
      for (const event of message.after ?? []) {
        const note = Entry.remark(event);
        if (note) entries.push(note);
      }
    }
    for (const [key, result] of later) {
      const call = asked.get(key);
      if (call) call.finish(result);
      else if (!this.unclaimed.has(key)) this.unclaimed.set(key, result);
    }
    return entries;
  }

  /** Registers the calls of an entry. @param {Entry} entry */
  know(entry) {
    for (const call of entry.calls()) {
      this.calls.set(call.key, call);
      if (call.interrupt) this.asking.value = new Map(this.asking.value).set(call.interrupt, call);
    }
  }

  /** Queues updates, and folds them before the next animation frame. @param {any[]} updates */
  told(updates) {
    this.pending.push(...updates);
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.fold());
    this.timer = setTimeout(() => this.fold(), UNSEEN_MS);
  }

  fold() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.frame = 0;
    const all = this.pending;
    this.pending = [];
    const now = Date.now();
    batch(() => {
      all.forEach((update) => this.hear(update));
      const live = this.live.value;
      if (live && now - this.pulsed < PULSE_MS) return;
      this.pulsed = now;
      this.pulse.value = live && pulse(live, now);
    });
  }

  /** @param {any} update */
  hear(update) {
    switch (update.type) {
      case "thread.titled":
        this.title.value = update.title;
        noteThread({ id: this.id, title: update.title });
        break;
      case "thread.status":
        this.status.value = update.status;
        noteThread({ id: this.id, status: update.status });
        break;
      case "run.started":
        this.run.value = { id: update.run, since: update.at };
        // Without models in the event, the run has the agent of the run before.
        this.chosen.value = { model: update.agent?.models?.[0] ?? this.chosen.value.model, mode: update.options?.mode ?? "agent" };
        break;
      case "message.received":
        this.said(update.id, update, update.message, update.by);
        break;
      case "message.queued":
        this.sending.heard(update.id, textOf(update.queued.message.blocks));
        this.line.add(update, update);
        break;
      case "message.taken": {
        const taken = this.line.find(update.id);
        this.line.drop(update.id);
        const message = taken ?? this.later.get(update.id);
        if (message) this.said(update.id, update, message, message.by);
        break;
      }
      case "message.withdrawn":
        this.line.drop(update.id);
        break;
      case "message.edited":
        this.line.change(update.id, update.message.blocks);
        break;
      case "message.promoted":
        this.line.promote(update.id);
        break;
      case "step.started":
        this.retry.value = null;
        this.step(update).heardAt = Date.now();
        break;
      case "message.delta":
      case "reasoning.delta":
      case "call.delta":
      case "message.snapshot":
        if (this.live.value?.begun === update.seq) this.live.value?.grow(update);
        break;
      case "step.replied": {
        const replied = this.step(update);
        replied.reply(update);
        this.know(replied);
        this.last.value = took(replied) ?? this.last.value;
        this.live.value = null;
        this.sums.read();
        break;
      }
      case "step.failed":
        this.failed(update);
        if (this.retry.value) this.news.value = { words: `Model call failed: ${update.message}. ${retrying(this.retry.value)}.` };
        this.sums.read();
        break;
      case "run.withdrawn":
        for (const one of this.entries.value) if (one.run === update.run) one.set({ status: "withdrawn" });
        break;
      case "run.finished":
        this.finish(update);
        this.sums.read();
        break;
      case "driver.stopped":
        this.add(Entry.note(`n${Date.now()}`, "warning", `The run was interrupted and will resume: ${update.why}`));
        break;
      case "limit.reached":
      case "model.switched":
        this.remark(update);
        break;
      case "interrupt.opened": {
        const call = update.call && this.callOf({ run: update.run, ...update.call });
        if (call) this.asking.value = new Map(this.asking.value).set(update.interrupt, call);
        call?.hear(update);
        this.ask();
        break;
      }
      case "interrupt.closed":
      case "interrupt.voted":
        this.asking.value.get(update.interrupt)?.hear(update);
        this.ask();
        break;
      default:
        if (update.index !== undefined) this.callOf(update)?.hear(update);
    }
  }

  /** @param {any} update */
  entryOf(update) {
    return update.step === undefined ? null : this.entries.value.findLast((one) => one.run === update.run && one.step === update.step);
  }

  /** @param {any} update */
  callOf(update) {
    const run = update.run ?? this.run.value?.id ?? "";
    return this.calls.get(`${run}/${update.step}/${update.index}`);
  }

  /** The entry of a step; created if missing. @param {any} update */
  step(update) {
    const known = this.entryOf(update);
    if (known && update.type === "step.started") known.begin(update);
    const entry = known ?? Entry.ofStep(update);
    if (!known) this.add(entry);
    if (entry.status === "live") this.live.value = entry;
    return entry;
  }

  /** @param {string} id @param {any} update @param {any} message @param {string} by */
  said(id, update, message, by) {
    this.sending.heard(id, textOf(message.blocks));
    if (this.entries.value.some((one) => one.role === "user" && one.id === id)) return;
    const entry = Entry.ofMessage({ seq: update.seq, at: update.at, run: update.run, role: "user", blocks: message.blocks, id, by, status: "complete", calls: [], ...this.chosen.value });
    entry.steers = this.entries.value.some((one) => one.run === entry.run);
    this.add(entry);
  }

  /** @param {any} update a `step.failed` */
  failed(update) {
    this.step(update).fail(update);
    this.live.value = null;
    this.retry.value = retryOf(update);
  }

  /** @param {any} update */
  finish(update) {
    this.run.value = null;
    this.retry.value = null;
    this.live.value = null;
    const last = this.entries.value.findLast((one) => one.run === update.run && one.role === "assistant");
    last?.set({ totals: update.totals });
    if (last?.status === "live") {
      last.giveUp();
      last.set({ status: "partial", stop: update.status });
    }
    const words = textOf([{ kind: "text", text: update.output?.text }]);
    // The partial text of a failed attempt is already shown.
    if (words && words !== last?.text) {
      this.add(Entry.ofMessage({ seq: update.seq, at: update.at, run: update.run, role: "assistant", blocks: [{ kind: "text", text: words }], status: "fallback", calls: [] }));
    }
    this.remark(update);
    const how = update.status === "failed" ? `The run failed: ${update.error?.message ?? ""}` : update.status === "cancelled" ? "The run was stopped." : "The run is done.";
    this.news.value = { words: how };
  }

  /** @param {any} update */
  remark(update) {
    const note = Entry.remark(update);
    if (note) this.add(note);
  }

  /** @param {Entry} entry */
  add(entry) {
    if (this.entries.value.some((one) => one.key === entry.key)) return;
    this.entries.value = [...this.entries.value, entry];
  }

  /** Reads the conversation's open interrupts. */
  ask() {
    if (!this.isMine.value) return;
    // The request in flight may return an older state than the one that this call must show.
    this.askAgain = this.asked !== undefined;
    this.asked ??= get(`/interrupts${query({ thread: this.id, limit: 100 })}`, { stop: this.stop.signal })
      .then((page) => {
        inbox.replace(this.id, page.data);
        this.asks.value = true;
      }, () => {})
      .finally(() => {
        this.asked = undefined;
        if (this.askAgain) this.ask();
      });
  }

  /** Cancels the run. The partial reply is kept. (SK-U7) */
  async cancel() {
    const run = this.run.value?.id ?? (await get(`/runs${query({ thread: this.id, limit: 1 })}`)).data[0]?.id;
    if (run) await post(`/runs/${run}/cancel`);
  }
}
