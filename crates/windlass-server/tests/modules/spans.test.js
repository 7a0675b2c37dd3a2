// The spans of a run's timeline.

import assert from "node:assert/strict";
import { test } from "node:test";

import { spansOf } from "../../ui/app/pages/run/spans.js";

const event = (at, type, more = {}) => ({ at, type, step: 1, index: 0, ...more });

test("attempts, doubts and interrupted calls end their spans", () => {
  const call = { kind: "tool_call", id: "c", name: "Bash", asked: "{}" };
  const asks = { interrupt: "i", kind: { in_doubt: { tool: "Bash" } }, call: { step: 1, index: 0 } };
  const events = [
    event(10, "step.started", { model: "m" }),
    event(20, "step.failed", { message: "it broke" }),
    event(20, "model.switched", { model: "n", reason: "it broke" }),
    event(30, "step.started", { model: "n", attempt: 2 }),
    event(40, "step.replied", { message: { blocks: [call] } }),
    event(50, "tool.started"),
    // The process was killed, and the call is dispatched again.
    event(60, "tool.started"),
    event(70, "tool.in_doubt", { reason: "it is gone" }),
    event(70, "interrupt.opened", asks),
    // The user answers after a while.
    event(5000, "interrupt.closed", { interrupt: "i", answer: { answer: "retry" }, by: "ann" }),
    event(5000, "tool.reconciling", { attempt: 1 }),
    event(5010, "tool.unresolved", { reason: "nothing found" }),
    event(5020, "tool.started"),
    event(5030, "limit.reached", { limit: "max_steps", figure: 25 }),
    event(5040, "cancel.requested", { by: "ann", reason: "requested" }),
    event(5050, "run.finished", { status: "cancelled" }),
  ];
  const spans = spansOf(events).steps.flatMap((step) => step.spans);
  assert.deepEqual(
    spans.map((one) => [one.kind, one.name, one.state, one.from, one.until]),
    [
      ["model", "m", "failed", 10, 20],
      ["mark", "Model switched to n", "it broke", 20, 20],
      ["model", "n", "replied", 30, 40],
      ["tool", "Bash", "interrupted", 50, 60],
      ["tool", "Bash", "in doubt", 60, 70],
      ["wait", "Did Bash complete?", "retried", 70, 5000],
      ["tool", "Bash: reconcile", "not reconciled", 5000, 5010],
      ["tool", "Bash", "ended with the run", 5020, 5050],
      ["mark", "Limit reached: steps per run", "25", 5030, 5030],
      ["mark", "Cancellation requested", "stopped by a user", 5040, 5040],
    ],
  );
});
