//! Inputs: everything that a decision needs from outside the thread.
//!
//! A decision reads nothing else, so that a replay has the same result.

mod view;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::view::{Arguments, CallView, HookVerdict, KnownCall, View};
use crate::agent::Agent;
use crate::command::Command;
use crate::event::{Answer, FileChange, InterruptKind, Refused, Rest, RunOptions, TitleMade};
use crate::id::{
    Attempt, CallKey, Digest, Fingerprint, InputId, InterruptId, ModelName, Principal, RunId, Seq, ThreadId,
};
use crate::message::{BlobRef, Block, Content, Message, MicroUsd, StopReason, Usage};
use crate::policy::{FailureClass, Grant, Terms};

/// An input of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case")]
pub enum Input {
    /// A message for the agent.
    Message(Box<NewMessage>),
    /// Withdraws a queued message.
    Withdraw {
        /// Id of the queued message.
        id: InputId,
        /// Requester: the message's sender or the thread's owner.
        by: Principal,
    },
    /// Replaces the content of a queued message.
    EditQueued {
        /// Id of the queued message.
        id: InputId,
        /// New content.
        message: Arc<Message>,
        /// Requester: the message's sender.
        by: Principal,
    },
    /// Sends a queued message immediately: cancels the active run and moves the message to the front of the queue.
    SendNow {
        /// Id of the queued message.
        id: InputId,
        /// Requester: the message's sender or the thread's owner.
        by: Principal,
    },
    /// Cancels a run.
    Cancel {
        /// Run to cancel; `None`: the active one.
        run: Option<RunId>,
        /// Requester.
        by: Principal,
    },
    /// Answers to interrupts. The machine accepts all of them or none.
    Answered {
        /// The answers with their interrupts.
        answers: Vec<Given>,
        /// The person or program that answers.
        by: Party,
        /// Grants that are written atomically with the answers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<NewGrant>,
        /// Data of the host program, recorded in the same append.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Box<Note>>,
        /// The policy and the open calls at the time when the driver
        /// processes the input. An edited call has its new arguments.
        #[serde(skip)]
        view: View,
    },
    /// Sets the thread's title.
    Title {
        /// New title, cut to 60 characters.
        title: String,
        /// Requester.
        by: Principal,
    },
    /// A model generated a title. The title applies unless a person has set one; the cost is recorded in any case.
    TitleMade {
        /// Generated title, cut to 60 characters; empty if the model gave none.
        title: String,
        /// Model, tokens and cost of the call.
        made: Box<TitleMade>,
    },
    /// Switches the active run to another model.
    SwitchModel {
        /// Model for the next step.
        model: ModelName,
        /// Requester.
        by: Principal,
    },
    /// Records data of the host program.
    Note {
        /// Subject, chosen by the host program.
        name: String,
        /// Content of the note.
        data: Value,
    },
    /// A model call succeeded.
    ModelReplied(Box<ModelReplied>),
    /// A model call failed.
    ModelFailed(Box<ModelFailed>),
    /// The driver stopped a model call, because the call is no longer wanted, or because the process ends and another
    /// process should repeat the call.
    ModelStopped {
        /// Step and attempt of the call.
        attempt: Attempt,
        /// Text received before the stop.
        partial: Option<Content>,
    },
    /// A tool returned.
    ToolReturned {
        /// The call that returned.
        call: CallKey,
        /// Text, image and file blocks.
        content: Vec<Block>,
        /// Whether the content is an error.
        error: bool,
        /// Whether the call had no effect because the tool's backend is unavailable.
        #[serde(default)]
        unavailable: bool,
        /// Milliseconds from dispatch to the end.
        duration_ms: u64,
        /// New state of the tool in the thread, if it has changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Box<Kept>>,
        /// A summary that replaces the first part of `content`, a text, for the model. The tool stores the complete
        /// text for later reads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offloaded: Option<Box<Offloaded>>,
    },
    /// A running tool is about to change a file and waits until the change is recorded.
    FileChanging {
        /// The call that changes the file.
        call: CallKey,
        /// The file and its present content.
        change: Box<FileChange>,
    },
    /// A tool needs an outside answer: the call is parked, and started again when the answer arrives.
    ToolAsked {
        /// The call that asks.
        call: CallKey,
        /// A question, a sign-in or a hand-off.
        kind: Box<InterruptKind>,
        /// The approvers, and the action on expiry.
        terms: Terms,
        /// Data that the tool gets back with the answer.
        state: Option<Content>,
    },
    /// A tool defers its call. The call is not in flight during the delay, and is then started again with its state.
    ToolDeferred {
        /// The deferred call.
        call: CallKey,
        /// Delay in milliseconds, at most a year.
        after_ms: u64,
        /// Data that the tool gets back when it resumes.
        state: Option<Content>,
        /// Determines whether the rest of the call may be repeated.
        rest: Rest,
    },
    /// A tool returned a preview of a call.
    Previewed {
        /// The previewed call.
        call: CallKey,
        /// Number of the preview.
        round: u32,
        /// Description of the call's effects, or the reason why they are unknown.
        preview: Content,
        /// Digest of the preview.
        digest: Digest,
    },
    /// A read for a call's outcome has finished.
    Reconciled {
        /// The call in question.
        call: CallKey,
        /// Number of the read.
        attempt: u32,
        /// The call's result, if the read proves that the call took effect.
        found: Option<Vec<Block>>,
        /// The read's response if it proves nothing, in plain language.
        reason: String,
    },
    /// The store rejected a start and wrote nothing, because the remaining amount of a budget is too small.
    LimitRefused {
        /// Name of the budget.
        limit: String,
        /// Cap of the budget.
        figure: u64,
        /// Used and requested amounts, and the approvers that may raise the cap.
        refused: Refused,
        /// The message whose run could not start its first step. The machine repeats the decision on this message, so
        /// that the start of the run is recorded first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Box<NewMessage>>,
    },
    /// A dispatched call ended without a recordable result. The call crashed, or was
    /// killed after a hang or a cancellation, or its result could not be stored, or its
    /// outcome is unknown. The effect class decides whether the call is repeated.
    ToolStopped {
        /// The stopped call.
        call: CallKey,
        /// The cause, for display.
        reason: String,
        /// Whether the tool itself reports that the call has stopped. If so, resuming a deferred call cannot succeed.
        #[serde(default)]
        by_tool: bool,
        /// The current policy and open calls, for judging a repeated call again.
        #[serde(default)]
        view: View,
    },
    /// The process that had a command in flight has ended.
    Lost {
        /// The command that was in flight.
        command: Command,
        /// The current policy and open calls.
        view: View,
    },
    /// This process recorded a start but did not dispatch it. Either the tool has changed since the verdict, or the
    /// run was cancelled in the same append. A later process cannot know that the call was not dispatched, and
    /// reports the command as lost.
    NotDispatched {
        /// The call that was not dispatched.
        call: CallKey,
        /// Number of the start.
        start: u32,
        /// The current policy and open calls, for judging the call again.
        view: View,
    },
    /// The policy changed: open calls that have not started are judged again.
    Rejudge {
        /// The current policy and open calls.
        view: View,
    },
    /// The time that `deadline` returned has been reached.
    Tick {
        /// Open interrupts whose whole term has passed by a monotonic clock, as seen by this process.
        confirmed: Vec<InterruptId>,
    },
}

impl Input {
    /// Whether only the driver may send the input, because it concerns commands in flight or the policy.
    pub fn is_the_drivers(&self) -> bool {
        match self {
            Self::ModelReplied(_)
            | Self::ModelFailed(_)
            | Self::ModelStopped { .. }
            | Self::ToolReturned { .. }
            | Self::ToolStopped { .. }
            | Self::FileChanging { .. }
            | Self::ToolAsked { .. }
            | Self::ToolDeferred { .. }
            | Self::Previewed { .. }
            | Self::Reconciled { .. }
            | Self::LimitRefused { .. }
            | Self::Lost { .. }
            | Self::NotDispatched { .. }
            | Self::Rejudge { .. }
            | Self::Tick { .. } => true,
            Self::Message(_)
            | Self::Withdraw { .. }
            | Self::EditQueued { .. }
            | Self::SendNow { .. }
            | Self::Cancel { .. }
            | Self::Answered { .. }
            | Self::Title { .. }
            | Self::TitleMade { .. }
            | Self::SwitchModel { .. }
            | Self::Note { .. } => false,
        }
    }
}

/// A result that the model sees only as a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloaded {
    /// Id by which the complete text can be requested.
    pub reference: String,
    /// The complete text.
    pub payload: BlobRef,
    /// Text that the model sees.
    pub summary: Content,
}

/// State of a tool in a thread, such as a task list. It is recorded together with the call's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Key by which all calls of the thread find the state.
    pub name: String,
    /// The complete state.
    pub value: Content,
}

/// A fork: a new thread that starts with the history of another thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Id of the new thread.
    pub thread: ThreadId,
    /// Last event of the other thread that is copied.
    pub until: Seq,
    /// The user who forks the thread and owns the new thread.
    pub by: Principal,
    /// The folder that the new thread's tools work in.
    pub folder: Option<String>,
    /// Current title of the other thread.
    pub title: Option<String>,
}

/// A message for the agent, with the run that it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewMessage {
    /// The sender's id, by which repeated sends are deduplicated.
    pub id: InputId,
    /// Content of the message.
    pub message: Arc<Message>,
    /// The sender.
    pub by: Principal,
    /// Tenant of the thread, if the message creates it.
    pub workspace: String,
    /// Folder of the thread, if the message creates it.
    pub folder: Option<String>,
    /// Id of the run that the message starts.
    pub run: RunId,
    /// Agent of that run.
    pub agent: Arc<Agent>,
    /// Options of that run.
    pub options: RunOptions,
    /// The handling of the message if another run is active.
    pub when_busy: WhenBusy,
    /// Data of the host program, recorded in the same append.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Box<Note>>,
}

/// A record of the host program in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Subject, chosen by the host program.
    pub name: String,
    /// Content of the note.
    pub data: Value,
}

/// The handling of a message that arrives while a run is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenBusy {
    /// Reject the message.
    Reject,
    /// Queue the message, and send it after the run ended `done`.
    #[default]
    Queue,
    /// Add the message after the last result of the current step.
    Steer,
    /// Cancel the run, then send the message.
    Replace,
    /// Cancel the run and withdraw its messages, then send the message.
    Rollback,
}

/// A complete reply of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReplied {
    /// Step and attempt of the call.
    pub attempt: Attempt,
    /// Blocks of the reply; call ids are unique and not empty.
    pub blocks: Vec<Block>,
    /// The reason why the model stopped.
    pub stop: StopReason,
    /// Token counts, as the provider reported them.
    pub usage: Usage,
    /// Cost; `None` if the price is unknown.
    pub cost: Option<MicroUsd>,
    /// Fingerprint of the request.
    pub request: Fingerprint,
    /// Milliseconds from the request to the first fragment.
    pub ttft_ms: Option<u64>,
    /// Milliseconds from the request to the end.
    pub duration_ms: u64,
    /// Duration of each reasoning block, in order, in milliseconds; empty for a model that does not stream them.
    pub thoughts_ms: Vec<u64>,
    /// The current policy, with a view of each call of the reply.
    pub view: View,
}

/// A failed model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelFailed {
    /// Step and attempt of the call.
    pub attempt: Attempt,
    /// Kind of failure; determines whether the call is retried.
    pub class: FailureClass,
    /// Description in plain language.
    pub message: String,
    /// Wait before a retry that the provider requests, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Text received before the failure.
    pub partial: Option<Content>,
}

/// An answer to one interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// The answered interrupt.
    pub interrupt: InterruptId,
    /// Content of the answer.
    pub answer: Answer,
    /// Digest that the sender saw. An approval is only valid for this digest. `None`: the approval is valid for the
    /// interrupt's current digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Digest>,
}

/// A grant that is created with an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewGrant {
    /// The user whose runs may use the grant.
    pub user: Principal,
    /// The grant to create.
    pub grant: Grant,
}

/// The identity of a sender, as the host program has authenticated it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// Name of the user or program.
    pub principal: Principal,
    /// Tenant that the sender acts in.
    pub workspace: String,
    /// Roles in that tenant. An `admin` may answer unless a rule names other approvers.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// The role that may answer in all threads, unless a rule names other approvers.
pub const ADMIN: &str = "admin";
