//! What was recorded, the only type that is serialised for ever: an [`Event`] is a [`Fact`] with its time and place,
//! versioned by [`VERSION`] and lifted by [`upcast`].

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

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Fact {
    /// The thread came to be.
    #[serde(rename = "thread.created")]
    ThreadCreated {
        /// Its id.
        thread: ThreadId,
        /// The tenant that it belongs to.
        workspace: String,
        /// The folder that its tools work in, as the user named it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        /// Whose it is: who may answer what it asks, unless a rule names others.
        owner: Principal,
    },
    /// The thread begins with the history of another; the events that follow are copies, up to the next of its own.
    #[serde(rename = "thread.forked")]
    ThreadForked {
        /// The other thread.
        from: ThreadId,
        /// The last of its events that was copied.
        until: Seq,
        /// Who forked it.
        by: Principal,
        /// When; the event itself is as old as the other thread, so that time does not run backwards.
        when: Timestamp,
    },
    /// The thread has a title.
    #[serde(rename = "thread.titled")]
    ThreadTitled {
        /// At most 60 characters.
        title: String,
        /// Who set it; `engine` for those that nobody gave.
        by: Principal,
        /// What it cost, where a model was asked; it does not count over a person's, which is then said again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        made: Option<Box<TitleMade>>,
    },
    /// A message entered the history.
    #[serde(rename = "message.received")]
    MessageReceived {
        /// The sender's id of it.
        id: InputId,
        /// The message.
        message: Arc<Message>,
        /// Who sent it.
        by: Principal,
    },
    /// A message waits: for the run to end, or for the step to end.
    #[serde(rename = "message.queued")]
    MessageQueued {
        /// The sender's id of it.
        id: InputId,
        /// The message, and what it starts.
        queued: Box<Queued>,
    },
    /// A waiting message entered the history.
    #[serde(rename = "message.taken")]
    MessageTaken {
        /// The id under which it waited.
        id: InputId,
    },
    /// A waiting message was taken back.
    #[serde(rename = "message.withdrawn")]
    MessageWithdrawn {
        /// The id under which it waited.
        id: InputId,
        /// Who took it back.
        by: Principal,
    },
    /// A waiting message says something else now; it keeps its place.
    #[serde(rename = "message.edited")]
    MessageEdited {
        /// The id under which it waits.
        id: InputId,
        /// What it says now.
        message: Arc<Message>,
        /// Who changed it.
        by: Principal,
    },
    /// A waiting message goes before all others, however the active run ends.
    #[serde(rename = "message.promoted")]
    MessagePromoted {
        /// The id under which it waits.
        id: InputId,
        /// Whose wish.
        by: Principal,
    },
    /// A run began.
    #[serde(rename = "run.started")]
    RunStarted {
        /// The agent that it is pinned to.
        agent: RunAgent,
        /// How it behaves.
        #[serde(default, skip_serializing_if = "RunOptions::is_default")]
        options: RunOptions,
        /// Who it works for.
        by: Principal,
    },
    /// A run ended.
    #[serde(rename = "run.finished")]
    RunFinished {
        /// How.
        status: RunStatus,
        /// The final text, or what had come of it.
        #[serde(default, skip_serializing_if = "Output::is_empty")]
        output: Output,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
        /// Whether the output is the plain answer at the step limit, or the engine's own words. (WT-L10..L12)
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fallback: bool,
        /// What it used.
        totals: Totals,
    },
    /// A finished run's messages left the prompt; they stay in the journal, and its effects stay done.
    #[serde(rename = "run.withdrawn")]
    RunWithdrawn {
        /// Calls whose effects stay.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        effects: Vec<EffectId>,
    },
    /// A model call is about to be sent.
    #[serde(rename = "step.started")]
    StepStarted {
        /// Which step and try.
        #[serde(flatten)]
        attempt: Attempt,
        /// The model that is called.
        model: ModelName,
        /// What the request says beyond the history.
        #[serde(default, skip_serializing_if = "StepMode::is_plain")]
        mode: StepMode,
        /// The engine's user text that the step adds to the history.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nudge: Option<String>,
    },
    /// The model answered.
    #[serde(rename = "step.replied")]
    StepReplied {
        /// Which step and try.
        #[serde(flatten)]
        attempt: Attempt,
        /// The reply as a message of the assistant.
        message: Arc<Message>,
        /// Why it ended.
        stop: StopReason,
        /// Tokens, as reported.
        #[serde(default)]
        usage: Usage,
        /// Its cost, where the price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<MicroUsd>,
        /// Fingerprint of the request as it was built.
        request: Fingerprint,
        /// From sending to the first fragment, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttft_ms: Option<u64>,
        /// From sending to the end, in milliseconds.
        duration_ms: u64,
        /// How long each of its thoughts took to come, in order, in milliseconds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        thoughts_ms: Vec<u64>,
    },
    /// The model call failed.
    #[serde(rename = "step.failed")]
    StepFailed {
        /// Which step and try.
        #[serde(flatten)]
        attempt: Attempt,
        /// What kind of failure.
        class: FailureClass,
        /// In plain words.
        message: String,
        /// Text that had come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<Content>,
        /// When it is tried again; absent where it is tried at once or not at all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
        /// Attempts at the step in all, if each further one fails in the same way; absent if it is not retried.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts_max: Option<u32>,
    },
    /// The gate judged a call.
    #[serde(rename = "call.judged")]
    CallJudged {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// The verdict.
        verdict: Verdict,
        /// What decided: a rule's name, `mode`, or `annotations`.
        rule: String,
        /// What may be done again when its outcome is lost.
        class: EffectClass,
        /// The arguments that will be sent, where they differ from what the model asked. (SK-L11)
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Content>,
        /// The version of the policy that it was judged by.
        view: u64,
        /// What an approval is bound to: the tool, its server and schema, the arguments, and what the engine adds.
        approval: Digest,
        /// Whether a person is shown what the call would do before they are asked.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        previews: bool,
    },
    /// A grant let a call through; one of its uses is spent.
    #[serde(rename = "grant.used")]
    GrantUsed {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// The grant's id.
        grant: String,
    },
    /// A person changed a call's arguments.
    #[serde(rename = "call.edited")]
    CallEdited {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// The arguments that will be sent.
        arguments: Content,
        /// What an approval of the call is bound to from now on.
        approval: Digest,
        /// Who.
        by: Principal,
    },
    /// What a call would do is about to be looked up, without doing it.
    #[serde(rename = "call.previewing")]
    CallPreviewing {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// Whether it was approved already: the same preview starts it, another one asks again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recheck: bool,
        /// The terms of the approval that is asked for then.
        #[serde(default, skip_serializing_if = "Terms::is_usual")]
        terms: Terms,
    },
    /// What a call would do is known.
    #[serde(rename = "call.previewed")]
    CallPreviewed {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// What it would do, for people.
        preview: Content,
        /// Digest of that text.
        digest: Digest,
    },
    /// The run waits for an outside reply.
    #[serde(rename = "interrupt.opened")]
    InterruptOpened {
        /// Its id.
        interrupt: InterruptId,
        /// What is asked.
        kind: InterruptKind,
        /// The call that waits for it; `None` where the run as a whole does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallKey>,
        /// Whose reply counts, how many are needed, and what silence means.
        #[serde(default, skip_serializing_if = "Terms::is_usual")]
        terms: Terms,
    },
    /// One of several approvals that are needed came.
    #[serde(rename = "interrupt.voted")]
    InterruptVoted {
        /// Which.
        interrupt: InterruptId,
        /// Who approved.
        by: Principal,
        /// The roles that they had.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        roles: Vec<String>,
    },
    /// Nobody has replied for the time after which a rule says to remind them.
    #[serde(rename = "interrupt.reminded")]
    InterruptReminded {
        /// Which.
        interrupt: InterruptId,
    },
    /// Nobody has replied for the time after which a rule says to tell others.
    #[serde(rename = "interrupt.escalated")]
    InterruptEscalated {
        /// Which.
        interrupt: InterruptId,
        /// Who is told.
        to: std::collections::BTreeSet<Approver>,
    },
    /// The outside reply came, or is no longer needed.
    #[serde(rename = "interrupt.closed")]
    InterruptClosed {
        /// Its id.
        interrupt: InterruptId,
        /// The reply.
        answer: Answer,
        /// Whose.
        by: Principal,
        /// The roles that they had.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        roles: Vec<String>,
    },
    /// A call is about to be dispatched. [`EffectId::derive`] gives its effect id. Its arguments are those of the reply,
    /// unless a later `call.judged` or `call.edited` replaces them.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
    },
    /// A start was recorded and nothing of it was dispatched: the call counts as not started by it.
    #[serde(rename = "tool.undispatched")]
    ToolUndispatched {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
    },
    /// A call has its result.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// How it came to its result.
        #[serde(default, skip_serializing_if = "Outcome::is_returned")]
        outcome: Outcome,
        /// Text, image and file blocks for the model.
        content: Vec<Block>,
        /// Whether it is an error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        error: bool,
        /// From dispatch to the tool's answer, in milliseconds; 0 where the tool gave none.
        #[serde(default)]
        duration_ms: u64,
    },
    /// A dispatched call cannot go on without an outside reply; an interrupt follows.
    #[serde(rename = "tool.parked")]
    ToolParked {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// What the tool wants back with the reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Content>,
    },
    /// A dispatched call goes on later: until then nothing of it is in flight.
    #[serde(rename = "tool.deferred")]
    ToolDeferred {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// When it is started again.
        until: Timestamp,
        /// What the tool wants back then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Content>,
        /// What may be done again of what is left of it.
        #[serde(default, skip_serializing_if = "Rest::is_as_the_call")]
        rest: Rest,
    },
    /// The model sees a summary in place of a call's result, which follows; the whole stays to be fetched. (LM-O)
    #[serde(rename = "result.offloaded")]
    ResultOffloaded {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// By what it is asked for.
        reference: String,
        /// All of its text.
        payload: BlobRef,
        /// What the model sees instead of its first part.
        summary: Content,
    },
    /// A tool keeps something with the thread under a name; the call's result follows. A rollback takes it back.
    #[serde(rename = "tool.kept")]
    ToolKept {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// What it is: `tasks`, `todos`.
        name: String,
        /// All of it.
        value: Content,
    },
    /// A call is about to change a file, which it does only then.
    #[serde(rename = "file.changing")]
    FileChanging {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// Which, and what was there before.
        change: Box<FileChange>,
    },
    /// A dispatched call's outcome is unknown, and a read is about to be made that may tell it.
    #[serde(rename = "tool.reconciling")]
    ToolReconciling {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// Which try, counted from 1.
        attempt: u32,
        /// When it is in doubt if nothing was found by then.
        until: Timestamp,
    },
    /// The read did not tell a call's outcome.
    #[serde(rename = "tool.unresolved")]
    ToolUnresolved {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// What was read, in plain words.
        reason: String,
        /// When it is read again.
        retry_at: Timestamp,
    },
    /// A dispatched call's outcome is unknown.
    #[serde(rename = "tool.in_doubt")]
    ToolInDoubt {
        /// The call.
        #[serde(flatten)]
        call: CallKey,
        /// The effect's stable id.
        effect: EffectId,
        /// Why it is unknown.
        reason: String,
    },
    /// Older messages left the prompt.
    #[serde(rename = "window.moved")]
    WindowMoved {
        /// The first message that is still sent, counted from 0 over the thread's life.
        start: u64,
    },
    /// The run goes on with another model.
    #[serde(rename = "model.switched")]
    ModelSwitched {
        /// Which.
        model: ModelName,
        /// Why.
        reason: String,
    },
    /// The run is to end.
    #[serde(rename = "cancel.requested")]
    CancelRequested {
        /// Whose wish.
        by: Principal,
        /// Why.
        reason: CancelReason,
    },
    /// A limit was reached.
    #[serde(rename = "limit.reached")]
    LimitReached {
        /// Its name, as in `Limits`.
        limit: String,
        /// Its figure.
        figure: u64,
        /// What is used of it already, where the store keeps count: nothing that draws on it is started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Refused>,
    },
    /// The host program's own data; the model never sees it.
    #[serde(rename = "note")]
    Note {
        /// What it is about.
        name: String,
        /// The data.
        data: serde_json::Value,
    },
}
