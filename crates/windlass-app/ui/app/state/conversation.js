// One conversation: what was said and done, folded from its messages and then from every event as it comes.
//
// Nothing of it is stored in the browser: a reload reads it again from the journal, in the middle of a word too.

import { get, patch, post, Problem, query, remove, signedIn, wait } from "../lib/api.js";
import { batch, computed, signal } from "../lib/html.js";
import { follow } from "../lib/stream.js";
import { Call, Entry, textOf } from "./entry.js";
import { NOTHING, plus, pulse } from "./figures.js";
import { draftOf, keepDraft } from "./drafts.js";
import * as inbox from "./inbox.js";
import { before, underWay } from "./journal.js";
import { warn } from "./notices.js";
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

/** @typedef {{id: string, seq: number, at: number, by: string, blocks: any[], text: string, place: string}} Waiting */

/**
 * @typedef {{seq: number, at: number, files: {path: string, fate: string}[], unseen: number}} Rollback
 * The message from which on, the event after which a fork begins, what becomes of files, and the calls of which nothing is known.
 */

/** Whether it helps to try again. @param {unknown} error */
const passes = (error) => !(error instanceof Problem) || error.status >= 500;

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
    /** @type {import("../../vendor/signals.js").Signal<import("./figures.js").Figures>} */
    this.figures = signal(NOTHING);
    /** @type {import("../../vendor/signals.js").Signal<import("./figures.js").Pulse | null>} */
    this.pulse = signal(null);
    this.pulsed = 0;
    /** What is to be rolled back with the next message. @type {import("../../vendor/signals.js").Signal<Rollback | null>} */
    this.rollback = signal(null);
    /** @type {import("../../vendor/signals.js").Signal<Waiting[]>} */
    this.queue = signal([]);
    /** What was sent and is not heard of yet. @type {import("../../vendor/signals.js").Signal<{key: string, id: string, text: string}[]>} */
    this.sending = signal([]);
    /** What the last message chose: the model, and what its run may do. @type {import("../../vendor/signals.js").Signal<{model: string, mode: string}>} */
    this.chosen = signal({ model: "", mode: "" });
    /** Text that is to be taken into the field for messages. */
    this.more = signal("");
    /** What has just happened, in a sentence, for those who do not see the page. */
    this.news = signal("");
    /** Whether what is asked has been read once. */
    this.asks = signal(false);
    this.title = signal("");
    this.status = signal("");
    this.owner = signal("");
    this.ready = signal(false);
    this.connected = signal(true);
    this.hasOlder = signal(false);
    /** @type {import("../../vendor/signals.js").Signal<unknown>} */
    this.failure = signal(null);
    /** The run that goes on. @type {import("../../vendor/signals.js").Signal<{id: string, since: number} | null>} */
    this.run = signal(null);
    this.open = computed(() => inbox.inbox.value.filter((open) => open.thread === this.id));
    /** Whether it is this person's own, or theirs to look after: others read it because it is shared. */
    this.isMine = computed(() => this.owner.value === me.value?.id || isAdmin.value);
    this.isActive = computed(() => !["", "idle"].includes(this.status.value));
    this.stop = new AbortController();
    /** @type {Map<string, Call>} */
    this.calls = new Map();
    /** The calls that interrupts are about. @type {Map<string, Call>} */
    this.asking = new Map();
    /** What was said between the two first reads: it had waited, and whoever takes it names only its id. @type {Map<string, any>} */
    this.later = new Map();
    /** @type {import("../lib/stream.js").Update[]} */
    this.pending = [];
    this.frame = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** Where the page before what is shown begins. @type {string | undefined} */
    this.cursor = undefined;
    this.reading = false;
    /** @type {Promise<void> | undefined} */
    this.asked = undefined;
    this.askAgain = false;
  }

  /** Reads what there is, and follows what comes; where that fails, again after a while. */
  async begin() {
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
    this.owner.value = thread.owner;
    const going = ["", "idle"].includes(thread.status) ? null : await underWay(this.id, thread.head, this.isMine.value, stop);
    const chosen = await this.lastChosen(page.data);
    batch(() => {
      this.title.value = thread.title ?? "";
      this.chosen.value = chosen;
      this.status.value = thread.status;
      this.hasOlder.value = Boolean(page.next_cursor);
      this.cursor = page.next_cursor;
      this.prepended = 0;
      this.queue.value = [];
      this.figures.value = NOTHING;
      this.calls.clear();
      // What came after the head was read is told by the stream.
      this.entries.value = this.read(page.data.filter((/** @type {any} */ message) => message.seq <= thread.head));
      for (const message of page.data) if (message.seq > thread.head) this.later.set(message.id, message);
      this.run.value = going && { id: going.id, since: going.since };
      if (going?.step) this.step(going.step);
      // The results of a step stand in no message before the last of them is there.
      for (const event of going?.after ?? []) if (event.type === "tool.finished") this.hear(event);
      this.failure.value = null;
      this.ready.value = true;
    });
    this.ask();
    return thread.head;
  }

  /** What the last message chose, that waits or was taken. @param {any[]} messages */
  async lastChosen(messages) {
    const of = (/** @type {string} */ field) => messages.findLast((message) => message.role === "user" && message[field])?.[field];
    // A run of many steps has its message further up.
    const runs = of("model") || !this.isMine.value ? [] : (await get(`/runs${query({ thread: this.id, limit: 1 })}`, { stop: this.stop.signal })).data;
    return { model: of("model") ?? runs[0]?.model ?? "", mode: of("mode") ?? "" };
  }

  /** Leaves it; the run goes on without this page. */
  end() {
    this.stop.abort();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }

  /** Reads the page before what is shown. */
  async older() {
    if (!this.hasOlder.value || this.reading) return;
    this.reading = true;
    try {
      const page = await get(`/threads/${this.id}/messages${query({ limit: PAGE, cursor: this.cursor })}`, { stop: this.stop.signal });
      batch(() => {
        const { last } = this.figures.value;
        const older = this.read(page.data);
        this.figures.value = { ...this.figures.value, last: last ?? this.figures.value.last };
        this.entries.value = [...older, ...this.entries.value];
        this.prepended += older.length;
        this.cursor = page.next_cursor;
        this.hasOlder.value = Boolean(page.next_cursor);
      });
    } finally {
      this.reading = false;
    }
  }

  /** @param {any[]} messages @returns {Entry[]} */
  read(messages) {
    /** @type {Entry[]} */
    const entries = [];
    /** @type {Map<string, Call>} */
    const asked = new Map();
    for (const message of messages) {
      if (message.role === "tool") {
        for (const block of message.blocks) {
          if (block.kind !== "tool_result") continue;
          asked.get(`${message.run}/${block.call_id}`)?.finish({ content: block.content, error: block.error });
        }
      } else if (message.role === "user" && message.status === "queued") {
        this.wait({ id: message.id, queued: { message, by: message.by, place: "after_run" } }, message);
      } else {
        const entry = Entry.ofMessage(message);
        this.know(entry);
        for (const call of entry.calls()) asked.set(`${entry.run}/${call.id}`, call);
        this.figures.value = plus(this.figures.value, entry);
        entries.push(entry);
      }
      // How a run ended, and what else happened in it, is said behind its last message.
      for (const event of message.after ?? []) {
        const note = Entry.remark(event);
        if (note) entries.push(note);
      }
    }
    return entries;
  }

  /** Takes note of the calls of an entry. @param {Entry} entry */
  know(entry) {
    for (const call of entry.calls()) {
      this.calls.set(call.key, call);
      if (call.interrupt) this.asking.set(call.interrupt, call);
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
        this.news.value = "";
        this.chosen.value = { model: update.agent?.models?.[0] ?? "", mode: update.options?.mode ?? "agent" };
        break;
      case "message.received":
        this.said(update.id, update, update.message, update.by);
        break;
      case "message.queued":
        this.sending.value = this.sending.value.filter((one) => one.id !== update.id);
        this.wait(update, update);
        break;
      case "message.taken": {
        const taken = this.queue.value.find((one) => one.id === update.id);
        this.queue.value = this.queue.value.filter((one) => one.id !== update.id);
        const message = taken ?? this.later.get(update.id);
        if (message) this.said(update.id, update, message, message.by);
        break;
      }
      case "message.withdrawn":
        this.queue.value = this.queue.value.filter((one) => one.id !== update.id);
        break;
      case "message.edited":
        this.queue.value = this.queue.value.map((one) => (one.id === update.id ? { ...one, blocks: update.message.blocks, text: textOf(update.message.blocks) } : one));
        break;
      case "message.promoted": {
        const first = this.queue.value.find((one) => one.id === update.id);
        if (first) this.queue.value = [first, ...this.queue.value.filter((one) => one !== first)];
        break;
      }
      case "step.started":
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
        this.figures.value = plus(this.figures.value, replied);
        this.live.value = null;
        break;
      }
      case "step.failed":
        this.step(update).fail(update);
        this.live.value = null;
        break;
      case "run.withdrawn":
        for (const one of this.entries.value) if (one.run === update.run) one.set({ status: "withdrawn" });
        break;
      case "run.finished":
        this.finish(update);
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
        if (call) this.asking.set(update.interrupt, call);
        call?.hear(update);
        this.ask();
        break;
      }
      case "interrupt.closed":
      case "interrupt.voted":
        this.asking.get(update.interrupt)?.hear(update);
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
    this.sending.value = this.sending.value.filter((one) => one.id !== id);
    if (this.entries.value.some((one) => one.role === "user" && one.id === id)) return;
    this.add(Entry.ofMessage({ seq: update.seq, at: update.at, run: update.run, role: "user", blocks: message.blocks, id, by, status: "complete", calls: [], ...this.chosen.value }));
  }

  /** @param {any} update @param {{seq: number, at: number}} when */
  wait(update, when) {
    if (this.queue.value.some((one) => one.id === update.id)) return;
    const { message, by, place } = update.queued;
    this.queue.value = [...this.queue.value, { id: update.id, seq: when.seq, at: when.at, by, place, blocks: message.blocks, text: textOf(message.blocks) }];
  }

  /** @param {any} update */
  finish(update) {
    this.run.value = null;
    this.live.value = null;
    const last = this.entries.value.findLast((one) => one.run === update.run && one.role === "assistant");
    last?.set({ totals: update.totals });
    if (last?.status === "live") last.set({ status: "partial" });
    const words = textOf([{ kind: "text", text: update.output?.text }]);
    // What a try had brought that failed stands there already.
    if (words && words !== last?.text) {
      this.add(Entry.ofMessage({ seq: update.seq, at: update.at, run: update.run, role: "assistant", blocks: [{ kind: "text", text: words }], status: "fallback", calls: [] }));
    }
    this.remark(update);
    const how = update.status === "failed" ? `The run has failed: ${update.error?.message ?? ""}` : update.status === "cancelled" ? "The run was stopped." : "The agent has answered.";
    this.news.value = how;
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

  /** Sends a message; what is active goes on or not, as `busy` says. @param {string} text @param {object} more @param {string} key under which it is sent once */
  async send(text, more, key) {
    this.sending.value = [...this.sending.value, { key, id: "", text }];
    try {
      const sent = await post(`/threads/${this.id}/messages`, { message: text, ...more }, { once: key });
      const there = this.entries.value.some((one) => one.id === sent.message) || this.queue.value.some((one) => one.id === sent.message);
      this.sending.value = this.sending.value.flatMap((one) => (one.key !== key ? [one] : there ? [] : [{ ...one, id: sent.message }]));
    } catch (error) {
      this.sending.value = this.sending.value.filter((one) => one.key !== key);
      throw error;
    }
  }

  /** Looks what a roll back to before a message would do; nothing is done yet. (ZE-P9) @param {Entry} entry */
  async rollBack(entry) {
    const at = await before(this.id, entry.seq);
    const would = await post(`/threads/${this.id}/files/restore`, { at, mode: "preview" });
    const files = would.files.filter((/** @type {any} */ file) => file.fate !== "unchanged");
    this.rollback.value = { seq: entry.seq, at, files, unseen: would.unseen_total };
  }

  /** Puts files back, and makes the conversation that goes on from before the message. @param {Rollback} rollback @returns {Promise<string>} */
  async carryOut(rollback) {
    await post(`/threads/${this.id}/files/restore`, { at: rollback.at, mode: "spare" });
    return (await post(`/threads/${this.id}/fork`, { at: rollback.at })).id;
  }

  /** Stops the run; what came of its answer stays. (SK-U7) */
  async cancel() {
    const run = this.run.value?.id ?? (await get(`/runs${query({ thread: this.id, limit: 1 })}`)).data[0]?.id;
    if (run) await post(`/runs/${run}/cancel`);
  }

  /** @param {string} id @param {string} text */
  editQueued(id, text) {
    return patch(`/threads/${this.id}/queue/${id}`, { message: text });
  }

  /** Keeps what a message was being changed into when it left the queue. @param {string} text */
  rescue(text) {
    keepDraft(this.id, [draftOf(this.id).text, text].filter(Boolean).join("\n"));
    this.more.value = [this.more.value, text].filter(Boolean).join("\n");
    if (!this.stop.signal.aborted) warn("The message is not in the queue any more. What you had changed it into stands in the field below.");
  }

  /** @param {string} id */
  withdraw(id) {
    return remove(`/threads/${this.id}/queue/${id}`);
  }

  /** @param {string} id */
  sendNow(id) {
    return post(`/threads/${this.id}/queue/${id}/send`);
  }
}
