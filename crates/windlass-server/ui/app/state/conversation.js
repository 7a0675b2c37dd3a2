// One conversation: what was said and done, folded from its messages and then from every event as it comes.
//
// Nothing of it is stored in the browser: a reload reads it again from the journal, in the middle of a word too.

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

/** Messages that are read first, and with each page before them. */
const FIRST_PAGE = 50;
const PAGE = 200;
/** How long after a failure a conversation is read again. */
const AGAIN_MS = 3000;
/** How long updates wait at most for a frame to be drawn; a page that nobody looks at draws none. */
const UNSEEN_MS = 250;
/** How often figures of what goes on are told anew. (SK-U9) */
const PULSE_MS = 200;

/** Whether it passes by itself, so that it is tried again. @param {unknown} error */
export const passes = (error) => !(error instanceof Problem) || error.status >= 500;

/** Whether a conversation of this owner is this person's, or theirs to look after. @param {string} owner */
const looksAfter = (owner) => owner === me.value?.id || isAdmin.value;

/** @typedef {import("./journal.js").Retry} Retry */

/** The one that is shown. @type {import("../../vendor/signals.js").Signal<Conversation | null>} */
export const shown = signal(null);

/** A thread as it is looked at. */
export class Conversation {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** @type {import("../../vendor/signals.js").Signal<Entry[]>} */
    this.entries = signal([]);
    /** How many of them were read after the first page, before it. */
    this.prepended = 0;
    /** The entry that grows. @type {import("../../vendor/signals.js").Signal<Entry | null>} */
    this.live = signal(null);
    /** What the last reply took. @type {import("../../vendor/signals.js").Signal<import("./figures.js").Last | null>} */
    this.last = signal(null);
    /** @type {import("../../vendor/signals.js").Signal<import("./figures.js").Pulse | null>} */
    this.pulse = signal(null);
    this.pulsed = 0;
    /** What is to be rolled back with the next message. */
    this.rollback = new Rollback(id);
    /** What the last message chose: the model, and what its run may do. @type {import("../../vendor/signals.js").Signal<{model: string, mode: string}>} */
    this.chosen = signal({ model: "", mode: "" });
    /** Text that is to be taken into the field for messages. */
    this.more = signal("");
    /** What has just happened, in a sentence, for those who do not see the page. @type {import("../../vendor/signals.js").Signal<{words: string} | null>} */
    this.news = signal(null);
    /** Whether what is asked has been read once. */
    this.asks = signal(false);
    this.title = signal("");
    this.status = signal("");
    this.owner = signal("");
    /** What it is a fork of. @type {import("../../vendor/signals.js").Signal<{thread: string, until: number} | null>} */
    this.origin = signal(null);
    this.ready = signal(false);
    this.connected = signal(true);
    this.hasOlder = signal(false);
    /** Why the page before what is shown could not be read. @type {import("../../vendor/signals.js").Signal<unknown>} */
    this.olderFailure = signal(null);
    /** @type {import("../../vendor/signals.js").Signal<unknown>} */
    this.failure = signal(null);
    /** The model call that failed and is made again. @type {import("../../vendor/signals.js").Signal<Retry | null>} */
    this.retry = signal(null);
    /** The run that goes on. @type {import("../../vendor/signals.js").Signal<{id: string, since: number} | null>} */
    this.run = signal(null);
    this.open = computed(() => inbox.inbox.value.filter((open) => open.thread === this.id));
    /** Whether it is this person's own, or theirs to look after: others read it because it is shared. */
    this.isMine = computed(() => looksAfter(this.owner.value));
    /** Whether a reply is being written, and nothing waits for a person. */
    this.isStreaming = computed(() => this.live.value !== null && this.status.value === "running" && this.open.value.length === 0);
    this.isActive = computed(() => !["", "idle"].includes(this.status.value));
    /** The run of the newest message to the agent. */
    this.newest = computed(() => this.entries.value.findLast((one) => one.role === "user")?.run ?? "");
    this.stop = new AbortController();
    this.sums = new Sums(id, this.stop.signal);
    this.line = new Line(id, this.stop.signal);
    this.queue = this.line.waiting;
    this.sending = new Sending(id, (message) => this.entries.value.some((one) => one.id === message) || this.line.find(message) !== undefined);
    /** @type {Map<string, Call>} */
    this.calls = new Map();
    /** Results whose calls stand on the page before what is shown, by run and the call's id. @type {Map<string, {content: any[], error: boolean}>} */
    this.unclaimed = new Map();
    /** The calls that interrupts are about. @type {import("../../vendor/signals.js").Signal<Map<string, Call>>} */
    this.asking = signal(new Map());
    /** What was said between the two first reads: it had waited, and whoever takes it names only its id. @type {Map<string, any>} */
    this.later = new Map();
    /** @type {import("../lib/stream.js").Update[]} */
    this.pending = [];
    this.frame = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** Where the page before what is shown begins. @type {string | undefined} */
    this.cursor = undefined;
    /** @type {Promise<void> | undefined} */
    this.reading = undefined;
    /** @type {Promise<void> | undefined} */
    this.asked = undefined;
    this.askAgain = false;
  }

  /** Reads what there is, and follows what comes; where that fails, again after a while. */
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
          // Whoever's session ended signs in above the page, and goes on.
          await signedIn(this.stop.signal).catch(() => {});
          continue;
        }
        this.failure.value = error;
        if (!passes(error)) return;
        await wait(AGAIN_MS, this.stop.signal).catch(() => {});
      }
    }
  }

  /** Reads what there is; returns the position that it stands for. @returns {Promise<number>} */
  async load() {
    const stop = this.stop.signal;
    const thread = await get(`/threads/${this.id}`, { stop });
    const page = await get(`/threads/${this.id}/messages${query({ limit: FIRST_PAGE })}`, { stop });
    const isMine = looksAfter(thread.owner);
    const going = ["", "idle"].includes(thread.status) ? null : await underWay(this.id, thread.head, isMine, stop);
    const chosen = await this.lastChosen(page.data, isMine);
    const growing = this.live.value;
    batch(() => {
      // With it comes the field for messages, which is to know what the last message chose.
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
      // What came after the head was read is told by the stream.
      this.entries.value = this.read(page.data.filter((/** @type {any} */ message) => message.seq <= thread.head));
      for (const message of page.data) if (message.seq > thread.head) this.later.set(message.id, message);
      this.run.value = going && { id: going.id, since: going.since };
      this.retry.value = null;
      if (going?.failed) this.failed(going.failed);
      // Keep a reply that is already shown: the stream sends its text again, but only after it has connected.
      if (growing && growing.begun === going?.step?.seq) this.add(growing);
      else if (going?.step) this.step(going.step);
      // The results of a step stand in no message before the last of them is there.
      for (const event of going?.after ?? []) if (event.type === "tool.finished") this.hear(event);
      this.failure.value = null;
      this.ready.value = true;
    });
    this.ask();
    this.sums.read();
    if (isMine) this.line.places();
    return thread.head;
  }

  /** What the last message chose, that waits or was taken. @param {any[]} messages @param {boolean} isMine */
  async lastChosen(messages, isMine) {
    const of = (/** @type {string} */ field) => messages.findLast((message) => message.role === "user" && message[field])?.[field];
    // A run of many steps has its message further up.
    const runs = of("model") || !isMine ? [] : (await get(`/runs${query({ thread: this.id, limit: 1 })}`, { stop: this.stop.signal })).data;
    return { model: of("model") ?? runs[0]?.model ?? "", mode: of("mode") ?? "" };
  }

  /** Leaves it; the run goes on without this page. */
  end() {
    this.stop.abort();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }

  /** Reads the page before what is shown, if there is one; those who ask meanwhile wait for the same. @returns {Promise<void>} */
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
        // What was said on this side into a run that began on the other.
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

  /** Reads a page, of which what is shown goes on. @param {any[]} messages @returns {Entry[]} */
  read(messages) {
    /** @type {Entry[]} */
    const entries = [];
    /** The last call of an id: a model may give one again. @type {Map<string, Call>} */
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
      // How a run ended, and what else happened in it, is said behind its last message.
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

  /** Takes note of the calls of an entry. @param {Entry} entry */
  know(entry) {
    for (const call of entry.calls()) {
      this.calls.set(call.key, call);
      if (call.interrupt) this.asking.value = new Map(this.asking.value).set(call.interrupt, call);
    }
  }

  /** Takes updates, and folds them in before the next frame is drawn. @param {any[]} updates */
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
        this.chosen.value = { model: update.agent?.models?.[0] ?? "", mode: update.options?.mode ?? "agent" };
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
        if (this.retry.value) this.news.value = { words: `The model call failed: ${update.message}. ${retrying(this.retry.value)}.` };
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
        this.add(Entry.note(`n${Date.now()}`, "warning", `The run was interrupted and goes on later: ${update.why}`));
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

  /** The entry of a step, which is made where it is not there. @param {any} update */
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
    // What a try had brought that failed stands there already.
    if (words && words !== last?.text) {
      this.add(Entry.ofMessage({ seq: update.seq, at: update.at, run: update.run, role: "assistant", blocks: [{ kind: "text", text: words }], status: "fallback", calls: [] }));
    }
    this.remark(update);
    const how = update.status === "failed" ? `The run has failed: ${update.error?.message ?? ""}` : update.status === "cancelled" ? "The run was stopped." : "The agent has answered.";
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

  /** Reads what it waits for. */
  ask() {
    if (!this.isMine.value) return;
    // What is being read may be older than what is to be seen.
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

  /** Stops the run; what came of its answer stays. (SK-U7) */
  async cancel() {
    const run = this.run.value?.id ?? (await get(`/runs${query({ thread: this.id, limit: 1 })}`)).data[0]?.id;
    if (run) await post(`/runs/${run}/cancel`);
  }
}
