//! Facts and events, the only types that are serialised permanently: an [`Event`] is a [`Fact`] with its time and
//! run, versioned by [`VERSION`]; [`upcast`] converts older versions.

mod ask;
mod call;
mod file;
mod run;
mod version;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::ask::{Answer, InterruptKind, LimitAsked, Next, Question, Refused, Reply};
pub use self::call::{CancelReason, Outcome, Rest, Verdict};
pub use self::file::{FileChange, FileImage};
pub use self::run::*;
pub use self::version::{Event, UnreadableEvent, VERSION, upcast};
use crate::agent::EffectClass;
use crate::id::*;
use crate::message::{BlobRef, Block, Content, Message, MicroUsd, StopReason, Usage};
use crate::policy::{Approver, FailureClass, Terms};

/// A recorded fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Fact {
    /// The thread was created.
    #[serde(rename = "thread.created")]
    ThreadCreated {
        /// Id of the thread.
        thread: ThreadId,
        /// Tenant that the thread belongs to.
        workspace: String,
        /// Working folder of the thread's tools, as the user named it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        /// Owner of the thread, who may answer its interrupts unless a rule names others.
        owner: Principal,
    },
    /// The thread was forked. The following events are copies of the
    /// other thread's events, up to this thread's next own event.
    #[serde(rename = "thread.forked")]
    ThreadForked {
        /// The other thread.
        from: ThreadId,
        /// Position of the last copied event in the other thread.
        until: Seq,
        /// The user who forked it.
        by: Principal,
        /// Time of the fork; the event itself has an old time, so that time does not run backwards.
        when: Timestamp,
    },
    /// The thread got a title.
    #[serde(rename = "thread.titled")]
    ThreadTitled {
        /// At most 60 characters.
        title: String,
        /// The author of the title; `engine` if it was derived from the first message.
        by: Principal,
        /// The cost, if a model generated it. If a person has set a title, `title` repeats the person's title.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        made: Option<Box<TitleMade>>,
    },
    /// A message entered the history.
    #[serde(rename = "message.received")]
    MessageReceived {
        /// The sender's id of the message.
        id: InputId,
        /// Content of the message.
        message: Arc<Message>,
        /// The sender.
        by: Principal,
    },
    /// A message was queued until the run or the step ends.
    #[serde(rename = "message.queued")]
    MessageQueued {
        /// The sender's id of the message.
        id: InputId,
        /// The message, with the run that it starts.
        queued: Box<Queued>,
    },
    /// A queued message entered the history.
    #[serde(rename = "message.taken")]
    MessageTaken {
        /// Id of the queued message.
        id: InputId,
    },
    /// A queued message was withdrawn.
    #[serde(rename = "message.withdrawn")]
    MessageWithdrawn {
        /// Id of the queued message.
        id: InputId,
        /// The person who withdrew it.
        by: Principal,
    },
    /// The content of a queued message was replaced; its position in the queue does not change.
    #[serde(rename = "message.edited")]
    MessageEdited {
        /// Id of the queued message.
        id: InputId,
        /// New content.
        message: Arc<Message>,
        /// The person who edited it.
        by: Principal,
    },
    /// A queued message was moved to the front; it is sent after the active run ends with any status.
    #[serde(rename = "message.promoted")]
    MessagePromoted {
        /// Id of the queued message.
        id: InputId,
        /// Requester.
        by: Principal,
    },
    /// A run started.
    #[serde(rename = "run.started")]
    RunStarted {
        /// The agent that the run is pinned to.
        agent: RunAgent,
        /// Options of the run.
        #[serde(default, skip_serializing_if = "RunOptions::is_default")]
        options: RunOptions,
        /// The user that the run works for.
        by: Principal,
    },
    /// A run ended.
    #[serde(rename = "run.finished")]
    RunFinished {
        /// Final status.
        status: RunStatus,
        /// The final text, or the received part of it.
        #[serde(default, skip_serializing_if = "Output::is_empty")]
        output: Output,
        /// The error, if the run failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
        /// Whether the output is the plain answer at the step limit, or a text from the engine. (WT-L10..L12)
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fallback: bool,
        /// Usage of the run.
        totals: Totals,
    },
    /// A finished run was rolled back: its messages are no longer sent but stay in the journal. Its effects remain.
    #[serde(rename = "run.withdrawn")]
    RunWithdrawn {
        /// Calls whose effects remain.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        effects: Vec<EffectId>,
    },
    /// A model call is about to be sent.
    #[serde(rename = "step.started")]
    StepStarted {
        /// Step and attempt of the call.
        #[serde(flatten)]
        attempt: Attempt,
        /// Model that is called.
        model: ModelName,
        /// The reason why the step runs, which adds texts to the request.
        #[serde(default, skip_serializing_if = "StepMode::is_plain")]
        mode: StepMode,
        /// A user text from the engine that the step adds to the history.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nudge: Option<String>,
    },
    /// A model call succeeded.
    #[serde(rename = "step.replied")]
    StepReplied {
        /// Step and attempt of the call.
        #[serde(flatten)]
        attempt: Attempt,
        /// The reply as an assistant message.
        message: Arc<Message>,
        /// The reason why the model stopped.
        stop: StopReason,
        /// Token counts, as the provider reported them.
        #[serde(default)]
        usage: Usage,
        /// Cost; absent if the price is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<MicroUsd>,
        /// Fingerprint of the request.
        request: Fingerprint,
        /// Milliseconds from the request to the first fragment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttft_ms: Option<u64>,
        /// Milliseconds from the request to the end.
        duration_ms: u64,
        /// Duration of each reasoning block, in order, in milliseconds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        thoughts_ms: Vec<u64>,
    },
    /// A model call failed.
    #[serde(rename = "step.failed")]
    StepFailed {
        /// Step and attempt of the call.
        #[serde(flatten)]
        attempt: Attempt,
        /// Kind of failure.
        class: FailureClass,
        /// Description in plain language.
        message: String,
        /// Text received before the failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<Content>,
        /// Time of the step's retry; absent if the step is retried at once or not at all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
        /// Total number of attempts at the step if each further attempt
        /// fails in the same way; absent if the step is not retried.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts_max: Option<u32>,
    },
    /// The gate judged a call.
    #[serde(rename = "call.judged")]
    CallJudged {
        /// The judged call.
        #[serde(flatten)]
        call: CallKey,
        /// Allow, ask or deny.
        verdict: Verdict,
        /// The source of the verdict: a rule's name, `mode`, or `annotations`.
        rule: String,
        /// Determines whether the call may be repeated if its outcome is lost.
        class: EffectClass,
        /// The arguments to send, if they differ from those that the model wrote. (SK-L11)
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Content>,
        /// Version of the policy that decided.
        view: u64,
        /// Digest that an approval is bound to. It covers the tool,
        /// server, schema, arguments, and the data that the engine adds.
        approval: Digest,
        /// Whether approvers see a preview before they decide.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        previews: bool,
    },
    /// A grant allowed a call; one of its uses is spent.
    #[serde(rename = "grant.used")]
    GrantUsed {
        /// The allowed call.
        #[serde(flatten)]
        call: CallKey,
        /// Id of the grant.
        grant: String,
    },
    /// A person changed a call's arguments.
    #[serde(rename = "call.edited")]
    CallEdited {
        /// The edited call.
        #[serde(flatten)]
        call: CallKey,
        /// The arguments to send.
        arguments: Content,
        /// New digest that an approval of the call is bound to.
        approval: Digest,
        /// The person who edited the arguments.
        by: Principal,
    },
    /// The driver is about to request a preview of a call.
    #[serde(rename = "call.previewing")]
    CallPreviewing {
        /// The previewed call.
        #[serde(flatten)]
        call: CallKey,
        /// Whether the call is already approved: an equal preview starts it, a different one asks again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recheck: bool,
        /// Terms of the approval that is requested afterwards.
        #[serde(default, skip_serializing_if = "Terms::is_usual")]
        terms: Terms,
    },
    /// The tool returned a preview of a call.
    #[serde(rename = "call.previewed")]
    CallPreviewed {
        /// The previewed call.
        #[serde(flatten)]
        call: CallKey,
        /// Description of the call's effects, for people.
        preview: Content,
        /// Digest of the preview.
        digest: Digest,
    },
    /// The run waits for outside input.
    #[serde(rename = "interrupt.opened")]
    InterruptOpened {
        /// Id of the interrupt.
        interrupt: InterruptId,
        /// Kind of input that the interrupt waits for.
        kind: InterruptKind,
        /// The waiting call; `None` if the run as a whole waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallKey>,
        /// The approvers, the required number of approvals, and the action on expiry.
        #[serde(default, skip_serializing_if = "Terms::is_usual")]
        terms: Terms,
    },
    /// One of several required approvals was given.
    #[serde(rename = "interrupt.voted")]
    InterruptVoted {
        /// The interrupt in question.
        interrupt: InterruptId,
        /// The approver.
        by: Principal,
        /// Roles of the approver at that time.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        roles: Vec<String>,
    },
    /// The approvers were reminded of an interrupt, because it has been open for the time that a rule sets.
    #[serde(rename = "interrupt.reminded")]
    InterruptReminded {
        /// The interrupt in question.
        interrupt: InterruptId,
    },
    /// An interrupt was escalated to further approvers, because it has been open for the time that a rule sets.
    #[serde(rename = "interrupt.escalated")]
    InterruptEscalated {
        /// The interrupt in question.
        interrupt: InterruptId,
        /// The approvers that were notified.
        to: std::collections::BTreeSet<Approver>,
    },
    /// An interrupt was answered, or is no longer needed.
    #[serde(rename = "interrupt.closed")]
    InterruptClosed {
        /// Id of the interrupt.
        interrupt: InterruptId,
        /// Content of the answer.
        answer: Answer,
        /// The person who answered, or `policy` or `engine`.
        by: Principal,
        /// Roles of that person at that time.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        roles: Vec<String>,
    },
    /// A call is about to be dispatched. [`EffectId::derive`] gives its effect id. Its arguments are those of the
    /// reply, unless a later `call.judged` or `call.edited` replaces them.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// The started call.
        #[serde(flatten)]
        call: CallKey,
    },
    /// A recorded start was not dispatched, so it does not count as a start.
    #[serde(rename = "tool.undispatched")]
    ToolUndispatched {
        /// The call in question.
        #[serde(flatten)]
        call: CallKey,
    },
    /// A call got its result.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// The finished call.
        #[serde(flatten)]
        call: CallKey,
        /// How the call got its result.
        #[serde(default, skip_serializing_if = "Outcome::is_returned")]
        outcome: Outcome,
        /// Text, image and file blocks for the model.
        content: Vec<Block>,
        /// Whether the content is an error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        error: bool,
        /// Milliseconds from dispatch to the tool's answer; 0 if the tool gave none.
        #[serde(default)]
        duration_ms: u64,
    },
    /// A dispatched call needs an outside answer; an interrupt follows.
    #[serde(rename = "tool.parked")]
    ToolParked {
        /// The parked call.
        #[serde(flatten)]
        call: CallKey,
        /// Data that the tool gets back with the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Content>,
    },
    /// A dispatched call was deferred: no part of the call is in flight until the given time.
    #[serde(rename = "tool.deferred")]
    ToolDeferred {
        /// The deferred call.
        #[serde(flatten)]
        call: CallKey,
        /// Time at which the call is started again.
        until: Timestamp,
        /// Data that the tool gets back when the call is started again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Content>,
        /// Determines whether the rest of the call may be repeated.
        #[serde(default, skip_serializing_if = "Rest::is_as_the_call")]
        rest: Rest,
    },
    /// A summary replaces a call's result for the model; the result follows, and its original stays readable. (LM-O)
    #[serde(rename = "result.offloaded")]
    ResultOffloaded {
        /// The call in question.
        #[serde(flatten)]
        call: CallKey,
        /// Id by which the original can be requested.
        reference: String,
        /// The complete text.
        payload: BlobRef,
        /// Summary that replaces the first part of the result.
        summary: Content,
    },
    /// A tool stored its state in the thread; the call's result follows. A rollback reverts the state.
    #[serde(rename = "tool.kept")]
    ToolKept {
        /// The call in question.
        #[serde(flatten)]
        call: CallKey,
        /// Key of the state: `tasks`, `todos`.
        name: String,
        /// The complete state.
        value: Content,
    },
    /// A call is about to change a file; the call waits until this event is recorded.
    #[serde(rename = "file.changing")]
    FileChanging {
        /// The call in question.
        #[serde(flatten)]
        call: CallKey,
        /// The file, with its image before and after.
        change: Box<FileChange>,
    },
    /// A dispatched call's outcome is unknown, and the driver is about to make a read that may reveal the outcome.
    #[serde(rename = "tool.reconciling")]
    ToolReconciling {
        /// The call in question.
        #[serde(flatten)]
        call: CallKey,
        /// Number of the read, counted from 1.
        attempt: u32,
        /// The time at which the call becomes in doubt if no read has succeeded before.
        until: Timestamp,
    },
    /// A read did not reveal a call's outcome.
    #[serde(rename = "tool.unresolved")]
    ToolUnresolved {
        /// The call in question.
        #[serde(flatten)]
        call: CallKey,
        /// The response to the read, in plain language.
        reason: String,
        /// Time of the next read.
        retry_at: Timestamp,
    },
    /// A dispatched call's outcome is unknown.
    #[serde(rename = "tool.in_doubt")]
    ToolInDoubt {
        /// The call in doubt.
        #[serde(flatten)]
        call: CallKey,
        /// Stable id of the effect.
        effect: EffectId,
        /// The reason why the outcome is unknown.
        reason: String,
    },
    /// Older messages are no longer sent to the model.
    #[serde(rename = "window.moved")]
    WindowMoved {
        /// Index of the first message that is still sent, counted from 0 over the thread's life.
        start: u64,
    },
    /// The run was switched to another model.
    #[serde(rename = "model.switched")]
    ModelSwitched {
        /// Model for the next step.
        model: ModelName,
        /// The cause, for display.
        reason: String,
    },
    /// The run was cancelled; it ends when none of its commands is in flight.
    #[serde(rename = "cancel.requested")]
    CancelRequested {
        /// Requester.
        by: Principal,
        /// Reason of the cancellation.
        reason: CancelReason,
    },
    /// A limit was reached.
    #[serde(rename = "limit.reached")]
    LimitReached {
        /// Name of the limit, as in `Limits`.
        limit: String,
        /// Value of the limit.
        figure: u64,
        /// Usage of a budget that the store counts. The driver starts nothing that uses the budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Refused>,
    },
    /// Data of the host program; the model never sees it.
    #[serde(rename = "note")]
    Note {
        /// Subject, chosen by the host program.
        name: String,
        /// Content of the note.
        data: serde_json::Value,
    },
}
