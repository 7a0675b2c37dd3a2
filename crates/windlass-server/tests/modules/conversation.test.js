// State of a conversation, folded from events and journal without a page.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.location = { pathname: "/", search: "" };
globalThis.document = { hidden: false };
globalThis.cancelAnimationFrame = () => {};
const { Conversation } = await import("../../ui/app/state/conversation.js");
const { retryOf } = await import("../../ui/app/state/journal.js");
const { Call } = await import("../../ui/app/state/entry.js");
const { me } = await import("../../ui/app/state/session.js");
const inbox = await import("../../ui/app/state/inbox.js");

const step = (type, seq, more = {}) => ({ type, seq, at: 1000, run: "r", step: 1, ...more });
const FAILED = step("step.failed", 4, { class: "rate_limited", message: "too many requests", partial: "Half an", retry_at: 5000, attempts_max: 4 });

/** Responds to requests by path. @param {Record<string, any>} answers */
const serve = (answers) => {
  globalThis.fetch = async (address) => {
    const path = String(address).replace("/api/v1", "").split("?")[0];
    return Response.json(answers[path] ?? { data: [] });
  };
};

// rows: SK-L6, SK-L7
test("a retry is pending from the failure of a model call until the next attempt starts", (context) => {
  context.mock.timers.enable({ apis: ["Date"], now: 1000 });
  const conversation = new Conversation("t");
  conversation.hear(step("step.started", 3));
  assert.equal(conversation.retry.value, null);
  conversation.hear(FAILED);
  assert.deepEqual(conversation.retry.value, { attempt: 2, most: 4, at: 5000 });
  const [entry] = conversation.entries.value;
  assert.deepEqual([entry.status, entry.text, entry.trouble], ["partial", "Half an", "Too many requests"]);
  assert.match(conversation.news.value.words, /attempt 2 of 4, in 4 s/);
  conversation.hear(step("step.started", 5, { attempt: 2 }));
  assert.deepEqual([conversation.retry.value, conversation.entries.value.length, entry.status], [null, 1, "live"]);
  // Stop it: otherwise it polls its usage until the process ends.
  conversation.end();
});

test("a failure that ends the run has no retry", () => {
  assert.equal(retryOf({ ...FAILED, retry_at: undefined, attempts_max: undefined }), null);
});

test("a clock that differs from the server's does not extend the countdown", () => {
  assert.equal(retryOf(FAILED, 1000).at, 5000);
  assert.equal(retryOf(FAILED, 4000).at, 5000);
  assert.equal(retryOf(FAILED, -100_000).at, -96_000);
});

// rows: SK-L6, SK-L7
test("a pending retry is restored after a reload", async (context) => {
  context.mock.timers.enable({ apis: ["Date"], now: 2000 });
  me.value = { id: "ann", role: "member" };
  serve({
    "/threads/t": { id: "t", owner: "ann", status: "running", head: 4, title: "T", forked_from: null },
    "/threads/t/messages": { data: [{ seq: 1, at: 900, run: "r", role: "user", id: "m", by: "ann", blocks: [{ kind: "text", text: "Go." }], status: "complete", calls: [], model: "p/m" }] },
    "/runs": { data: [{ id: "r", started_at: 900 }] },
    "/threads/t/events": { data: [step("run.started", 2), step("step.started", 3), FAILED] },
    "/usage": { totals: {} },
  });
  const conversation = new Conversation("t");
  await conversation.load();
  conversation.end();
  assert.deepEqual(conversation.retry.value, { attempt: 2, most: 4, at: 5000 });
  assert.deepEqual(conversation.entries.value.map((entry) => [entry.role, entry.text, entry.trouble]), [["user", "Go.", ""], ["assistant", "Half an", "Too many requests"]]);
  assert.equal(conversation.live.value, null);
});

test("a result is kept if the run ends while the conversation is being loaded", async () => {
  me.value = { id: "ann", role: "member" };
  const call = (index) => ({ id: `c${index}`, step: 1, index, state: index === 0 ? "done" : "running" });
  const asked = (index) => ({ kind: "tool_call", id: `c${index}`, name: "Bash", asked: "{}" });
  serve({
    "/threads/t": { id: "t", owner: "ann", status: "running", head: 5, title: "T", forked_from: null },
    "/threads/t/messages": { data: [{ seq: 4, at: 900, run: "r", role: "assistant", blocks: [asked(0), asked(1)], status: "complete", calls: [call(0), call(1)] }] },
    // The run has already ended.
    "/runs": { data: [] },
    "/threads/t/events": { data: [step("run.started", 2), step("step.started", 3), step("step.replied", 4), step("tool.finished", 5, { index: 0, content: [{ kind: "text", text: "one" }] })] },
    "/usage": { totals: {} },
  });
  const conversation = new Conversation("t");
  await conversation.load();
  conversation.end();
  const results = [...conversation.entries.value[0].calls()].map((one) => one.result);
  assert.deepEqual(results, [[{ kind: "text", text: "one" }], null]);
  assert.equal(conversation.run.value?.id, "r", "the stream reports the end of the run");
});

test("a run that has ended at the position is not active, even if another has started since", async () => {
  const { underWay } = await import("../../ui/app/state/journal.js");
  serve({
    "/runs": { data: [{ id: "later", started_at: 2000 }] },
    "/threads/t/events": { data: [step("run.started", 2), step("run.finished", 3), step("message.queued", 4)] },
  });
  assert.equal(await underWay("t", 4, true, new AbortController().signal), null);
});

test("a reply is streaming unless an interrupt is open or the run waits", () => {
  const conversation = new Conversation("t");
  conversation.hear({ type: "thread.status", status: "running" });
  assert.equal(conversation.isStreaming.value, false, "no reply is streaming");
  conversation.hear(step("step.started", 3));
  assert.equal(conversation.isStreaming.value, true);
  inbox.replace("t", [{ id: "i", run: "r", thread: "t", since: 1, kind: "approval", tool: "Write", counts: true }]);
  assert.equal(conversation.isStreaming.value, false, "an interrupt is open");
  inbox.replace("t", []);
  conversation.hear({ type: "thread.status", status: "waiting" });
  assert.equal(conversation.isStreaming.value, false, "the run is waiting");
});

test("a call keeps the chosen option of its answer", () => {
  const call = new Call("r", { step: 1, index: 0 }, "request_human_approval", "{}");
  call.hear({ type: "interrupt.closed", by: "ann", at: 7, answer: { answer: "reply", selected: "later" } });
  assert.deepEqual(call.answered, { by: "ann", at: 7, word: "replied", selected: "later" });
});
