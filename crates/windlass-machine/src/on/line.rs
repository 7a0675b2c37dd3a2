//! The line of a step's calls: determines which calls may start, and when the step ends.
//!
//! A call starts when every earlier one has its result; as an exception, adjacent pure
//! calls run in parallel. Results have the order of the calls, not of their arrival. All
//! interrupts of the line open at once, so that people can answer them together.

use super::record::Recorder;
use super::verdict::{self, Judged};
use crate::agent::EffectClass;
use crate::event::{Answer, AtLimit, Fact, InterruptKind, LimitAsked, Outcome, StepMode, Verdict};
use crate::id::{InterruptId, Principal};
use crate::input::{Arguments, CallView, KnownCall, View};
use crate::message::{Block, Content};
use crate::policy::Terms;
use crate::state::{Call, CallStatus, Changed, ENGINE};

/// Records a result from the engine.
pub(super) fn close(r: &mut Recorder<'_>, index: usize, outcome: Outcome, text: impl Into<String>) {
    finish(r, index, outcome, vec![Block::text(text.into())]);
}

/// Records a result without a tool's own answer.
pub(super) fn finish(r: &mut Recorder<'_>, index: usize, outcome: Outcome, content: Vec<Block>) {
    let error = !matches!(outcome, Outcome::Told | Outcome::Reconciled);
    r.record(Fact::ToolFinished { call: r.key(index), outcome, content, error, duration_ms: 0 });
}

/// Records an error result that explains why the call did not run.
pub(super) fn refuse(r: &mut Recorder<'_>, index: usize, error: &str) {
    close(r, index, Outcome::Refused, serde_json::json!({ "error": error }).to_string());
}

/// Judges every call of a new reply.
pub(super) fn judge(r: &mut Recorder<'_>, view: &View) {
    let limit = r.run().agent.limits.max_calls_per_step as usize;
    let is_fallback = r.run().mode == StepMode::Fallback;
    let all = r.line().map_or(0, |line| line.calls.len());
    if all > limit {
        let (limit, figure) = ("max_calls_per_step".into(), limit as u64);
        r.record(Fact::LimitReached { limit, figure, refused: None });
    }
    for index in 0..all {
        if index >= limit {
            let text =
                format!("Not run: the step asked for {all} calls, and at most {limit} are run in one step.");
            close(r, index, Outcome::Refused, text);
        } else if is_fallback {
            let text = "Not run: no steps are left, and the answer was asked for without tools.";
            close(r, index, Outcome::Refused, text);
        } else {
            admit(r, index, view);
        }
    }
}

/// Judges one call that has not started.
pub(super) fn admit(r: &mut Recorder<'_>, index: usize, view: &View) {
    let tool = r.call(index).tool.clone();
    let known = match view.calls.get(index).unwrap_or(&CallView::Unknown) {
        // A process that has the tool judges the call.
        CallView::Unknown if r.lacks(&tool) => return,
        CallView::Unknown => return refuse(r, index, &format!("Unknown tool: {tool}")),
        CallView::Withheld { reason } => return refuse(r, index, reason),
        CallView::Known(known) => known,
    };
    if let Some(reason) = verdict::withheld(r.run(), &tool, known) {
        return refuse(r, index, &reason);
    }
    let sent = match &known.arguments {
        Arguments::AsAsked { .. } => None,
        Arguments::Repaired { arguments, .. } => Some(arguments),
        Arguments::Invalid { reason } => {
            return refuse(r, index, &format!("Invalid arguments: {reason}"));
        }
    };
    if let Some(why) = known.asks.as_ref().and_then(|(kind, _)| kind.check().err()) {
        return refuse(r, index, &format!("Invalid arguments: the question {why}"));
    }
    if is_over_its_limit(r, index) {
        return;
    }
    let given = verdict::judge(r, &tool, known, view);
    judged(r, index, &given, known, sent, view);
    match (given.verdict, &known.asks) {
        (Verdict::Deny, _) => denied(r, index, &given),
        // A call that asks people needs no permission to ask them.
        (Verdict::Allow | Verdict::Ask, Some((kind, terms))) => {
            open(r, index, kind.clone(), terms.clone());
        }
        (Verdict::Allow, None) => {}
        (Verdict::Ask, None) => ask(r, index, given),
    }
}

/// Records a verdict.
pub(super) fn judged(
    r: &mut Recorder<'_>,
    index: usize,
    judged: &Judged,
    known: &KnownCall,
    sent: Option<&Content>,
    view: &View,
) {
    let (key, call) = (r.key(index), r.call(index));
    // A call that was already dispatched keeps the effect class of its first dispatch.
    let class = if call.starts > 0 { call.class } else { known.class };
    r.record(Fact::CallJudged {
        call: key,
        verdict: judged.verdict,
        rule: judged.by.clone(),
        class,
        arguments: sent.cloned(),
        view: view.version,
        approval: judged.approval,
        previews: known.previews,
    });
    if let (Verdict::Allow, Some(grant)) = (judged.verdict, &judged.grant) {
        r.record(Fact::GrantUsed { call: key, grant: grant.clone() });
    }
}

/// Closes a call that the gate denied.
pub(super) fn denied(r: &mut Recorder<'_>, index: usize, judged: &Judged) {
    let by = &judged.by;
    let why = judged.reason.as_ref().map(|reason| format!(" The reason: {reason}")).unwrap_or_default();
    if r.call(index).may_have_changed_something() {
        let text = format!("Outcome unknown: repeating the call was denied by policy (`{by}`).{why}");
        return close(r, index, Outcome::InDoubt, text);
    }
    let text = format!("Tool call was denied by policy (`{by}`). Do not retry it; find another way.{why}");
    close(r, index, Outcome::Denied, text);
}

/// Asks people about a call. If the tool can preview the call, requests the preview first.
pub(super) fn ask(r: &mut Recorder<'_>, index: usize, judged: Judged) {
    if let Some(reason) = judged.reason {
        let tool = r.call(index).tool.clone();
        open(r, index, InterruptKind::Hook { tool, reason }, judged.terms);
    } else if r.call(index).previews {
        look(r, index, false, judged.terms);
    } else {
        ask_for_approval(r, index, None, judged.terms);
    }
}

/// Starts a preview of a call.
pub(super) fn look(r: &mut Recorder<'_>, index: usize, recheck: bool, terms: Terms) {
    r.record(Fact::CallPreviewing { call: r.key(index), recheck, terms });
}

/// Opens the approval of a call.
pub(super) fn ask_for_approval(
    r: &mut Recorder<'_>,
    index: usize,
    preview: Option<Content>,
    terms: Terms,
) -> InterruptId {
    let call = r.call(index);
    let kind = InterruptKind::Approval { tool: call.tool.clone(), approval: call.approval, preview };
    open(r, index, kind, terms)
}

/// Opens an interrupt about a call.
pub(super) fn open(r: &mut Recorder<'_>, index: usize, kind: InterruptKind, terms: Terms) -> InterruptId {
    let key = r.key(index);
    let id = format!("{}.{}.{}.{}", r.run().id, key.step, key.index, r.call(index).asks);
    let interrupt = InterruptId::from(id);
    r.record(Fact::InterruptOpened { interrupt: interrupt.clone(), kind, call: Some(key), terms });
    interrupt
}

/// Records that a dispatched call is in doubt, and asks people.
pub(super) fn doubt(r: &mut Recorder<'_>, index: usize, reason: String) {
    let call = r.key(index);
    r.record(Fact::ToolInDoubt { call, effect: r.effect(call), reason });
    let tool = r.call(index).tool.clone();
    open(r, index, InterruptKind::InDoubt { tool }, Terms::default());
}

/// Starts reconciliation reads for the outcome of a dispatched call.
pub(super) fn reconcile(r: &mut Recorder<'_>, index: usize, wait_ms: u64) {
    let until = r.now().plus_ms(wait_ms);
    r.record(Fact::ToolReconciling { call: r.key(index), attempt: 1, until });
}

/// Whether the calls of a tool reach their limit. If so, records the limit: the run asks people or ends.
fn is_over_its_limit(r: &mut Recorder<'_>, index: usize) -> bool {
    let run = r.run();
    let tool = &r.call(index).tool;
    let Some(usual) = run.agent.limits.max_calls.get(tool) else { return false };
    let limit = format!("max_calls.{tool}");
    let figure = run.figure(&limit, u64::from(*usual));
    let before = r.line().map_or(&[][..], |line| &line.calls[..index]);
    let waits = |call: &&Call| {
        let is_over = matches!(call.status, CallStatus::Done | CallStatus::Started);
        call.tool == *tool && call.starts == 0 && !is_over
    };
    let waiting = before.iter().filter(waits).count() as u64;
    let started = u64::from(run.calls_of.get(tool).copied().unwrap_or_default());
    if started + waiting < figure {
        return false;
    }
    let at_limit = run.options.at_limit();
    r.record(Fact::LimitReached { limit: limit.clone(), figure, refused: None });
    match at_limit {
        AtLimit::Ask => {
            let asked = LimitAsked { limit, figure, used: started + waiting, next: None };
            open(r, index, InterruptKind::Limit(Box::new(asked)), Terms::default());
        }
        AtLimit::Fail | AtLimit::Answer => r.is_over = true,
    }
    true
}

/// Records the start of a call.
pub(super) fn start(r: &mut Recorder<'_>, index: usize) {
    r.record(Fact::ToolStarted { call: r.key(index) });
}

/// Closes the open interrupt of a call.
pub(super) fn withdraw(r: &mut Recorder<'_>, index: usize) {
    let Some(asked) = r.call(index).status.asked() else { return };
    let (interrupt, by) = (asked.interrupt.clone(), Principal::from(ENGINE));
    r.record(Fact::InterruptClosed { interrupt, answer: Answer::Withdrawn, by, roles: Vec::new() });
}

/// Starts every call that may start now.
pub(super) fn start_next(r: &mut Recorder<'_>) {
    for index in startable(r) {
        begin(r, index);
    }
}

/// Starts or restarts a call that is next in the line. If the call was approved with a preview, another preview
/// precedes each start, because a different preview means a different call. An idempotency key prevents a second
/// effect, but not a change of the circumstances. A call whose tool is missing in this process keeps its position.
pub(super) fn begin(r: &mut Recorder<'_>, index: usize) {
    let call = r.call(index);
    if r.lacks(&call.tool) {
        return;
    }
    // A call allowed by rule has no approved preview to compare with, even if a person later requested its retry.
    let is_shown = call.preview.is_some() || call.starts == 0;
    if call.approved && call.previews && is_shown {
        let terms = call.terms.clone();
        look(r, index, true, terms);
    } else {
        start(r, index);
    }
}

/// Returns the calls that may start now.
fn startable(r: &Recorder<'_>) -> Vec<usize> {
    let run = r.run();
    let serialized = run.options.serialized;
    let parallel = if serialized { 1 } else { run.agent.limits.max_parallel_calls.max(1) as usize };
    let mut running = 0;
    let mut found = Vec::new();
    let calls = r.line().map_or(&[][..], |line| &line.calls);
    for (index, call) in calls.iter().enumerate() {
        let ready = match call.status {
            CallStatus::Done => continue,
            CallStatus::New | CallStatus::Asking(_) | CallStatus::Previewing { recheck: false } => break,
            // The tool is missing in this process, so later calls wait as well.
            CallStatus::Ready if r.lacks(&call.tool) => break,
            CallStatus::Started
            | CallStatus::Deferred { .. }
            | CallStatus::Reconciling { .. }
            | CallStatus::Unresolved { .. }
            | CallStatus::Previewing { recheck: true } => false,
            CallStatus::Ready => true,
        };
        let pure = call.class == EffectClass::Pure;
        // A call that is not pure starts alone, as the first open call.
        if running > 0 && !pure || running >= parallel {
            break;
        }
        if ready {
            found.push(index);
        }
        running += 1;
        if !pure {
            break;
        }
    }
    found
}

/// Adds a note for the model about the arguments that were sent, if they differ from the model's arguments.
pub(super) fn with_repair(call: &Call, content: &[Block]) -> Vec<Block> {
    let mut blocks = content.to_vec();
    let why = match call.changed {
        Some(Changed::Repaired) => "The arguments were corrected.",
        Some(Changed::Edited) => "A person changed the arguments before approving the call.",
        None => return blocks,
    };
    blocks.push(Block::text(match &call.arguments {
        Content::Inline(sent) => format!("({why} What was sent: {sent})"),
        Content::Blob(sent) => format!("({why} What was sent has {} bytes.)", sent.size_bytes),
    }));
    blocks
}
