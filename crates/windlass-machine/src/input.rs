//! What arrives: everything that a decision needs from outside the thread comes in an input.
//!
//! Nothing in an input is looked up again later, so that a replay decides the same.

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

/// What arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case")]
pub enum Input {
    /// A message for the agent.
    Message(Box<NewMessage>),
    /// A waiting message is taken back.
    Withdraw {
        /// The id under which it waits.
        id: InputId,
        /// Whose wish: its sender's or the thread's owner's.
        by: Principal,
    },
    /// A waiting message is to say something else.
    EditQueued {
        /// The id under which it waits.
        id: InputId,
        /// What it is to say.
        message: Arc<Message>,
        /// Whose wish: its sender's.
        by: Principal,
    },
    /// A waiting message is to be sent at once: the active run is cancelled, and the message goes before the others.
    SendNow {
        /// The id under which it waits.
        id: InputId,
        /// Whose wish: its sender's or the thread's owner's.
        by: Principal,
    },
    /// The run is to end.
    Cancel {
        /// Which run; `None`: the active one.
        run: Option<RunId>,
        /// Whose wish.
        by: Principal,
    },
    /// Replies to interrupts: all of them count, or none.
    Answered {
        /// What was said to which.
        answers: Vec<Given>,
        /// Who.
        by: Party,
        /// Grants that are written with the answers, or not at all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<NewGrant>,
        /// Recorded in the same append.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Box<Note>>,
        /// The policy and the open calls, an edited one with its new arguments; looked up when the input is taken.
        #[serde(skip)]
        view: View,
    },
    /// The thread gets a title.
    Title {
        /// At most 60 characters are kept.
        title: String,
        /// Whose wish.
        by: Principal,
    },
    /// A model was asked for a title. It counts where no person has given one; what it cost counts always.
    TitleMade {
        /// At most 60 characters are kept; empty where the model's answer was none.
        title: String,
        /// What it cost.
        made: Box<TitleMade>,
    },
    /// The active run goes on with another model.
    SwitchModel {
        /// Which.
        model: ModelName,
        /// Whose wish.
        by: Principal,
    },
    /// The host program records data of its own.
    Note {
        /// What it is about.
        name: String,
        /// The data.
        data: Value,
    },
    /// The model answered.
    ModelReplied(Box<ModelReplied>),
    /// The model call failed.
    ModelFailed(Box<ModelFailed>),
    /// The driver gave the model call up: because it was no longer wanted, or because the process ends and another one is
    /// to make it again.
    ModelStopped {
        /// Which.
        attempt: Attempt,
        /// Text that had come.
        partial: Option<Content>,
    },
    /// A tool answered.
    ToolReturned {
        /// Which call.
        call: CallKey,
        /// Text, image and file blocks.
        content: Vec<Block>,
        /// Whether it is an error.
        error: bool,
        /// Whether nothing was done, because what carries the tool out was not there.
        #[serde(default)]
        unavailable: bool,
        /// From dispatch to the end, in milliseconds.
        duration_ms: u64,
        /// What it keeps with the thread from now on, where that has changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Box<Kept>>,
        /// What the model sees instead of the first part of `content`, a text; the whole of that stays to be fetched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offloaded: Option<Box<Offloaded>>,
    },
    /// A tool at work is about to change a file, and waits until that is recorded.
    FileChanging {
        /// Which call.
        call: CallKey,
        /// Which file, and what is there.
        change: Box<FileChange>,
    },
    /// A tool cannot go on without an outside reply: its call is parked, and started again with the reply.
    ToolAsked {
        /// Which call.
        call: CallKey,
        /// What it asks: a question, a sign-in or a hand-off.
        kind: Box<InterruptKind>,
        /// What silence means, for example.
        terms: Terms,
        /// What the tool wants back.
        state: Option<Content>,
    },
    /// A tool goes on later: its call holds nothing until then, and is started again with what the tool wants back.
    ToolDeferred {
        /// Which call.
        call: CallKey,
        /// How long, in milliseconds; a year at most.
        after_ms: u64,
        /// What the tool wants back.
        state: Option<Content>,
        /// What may be done again of what is left.
        rest: Rest,
    },
    /// What a call would do is known.
    Previewed {
        /// Which call.
        call: CallKey,
        /// Which look.
        round: u32,
        /// What it would do, or why that cannot be told.
        preview: Content,
        /// Digest of that text.
        digest: Digest,
    },
    /// A read was made that may tell a call's outcome.
    Reconciled {
        /// Which call.
        call: CallKey,
        /// Which try.
        attempt: u32,
        /// What the read found, where that says that the call was done.
        found: Option<Vec<Block>>,
        /// What was read otherwise, in plain words.
        reason: String,
    },
    /// A budget that the store keeps count of had no room for what was to be started: nothing was written.
    LimitRefused {
        /// Its name.
        limit: String,
        /// Its figure.
        figure: u64,
        /// How it stands.
        refused: Refused,
        /// The message of a run whose first step had no room. The decision is repeated with it, so that the run is
        /// recorded first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Box<NewMessage>>,
    },
    /// A dispatched call ended without a result that can be recorded: it was killed because it hung or nobody wanted it
    /// any more, it crashed, its result could not be kept, or is not known. Its effect class says what that means.
    ToolStopped {
        /// Which call.
        call: CallKey,
        /// Why.
        reason: String,
        /// Whether the tool itself says so: then another look at what it was put off for tells no more.
        #[serde(default)]
        by_tool: bool,
        /// The policy now, with the open calls as they stand: what is called again is judged again.
        #[serde(default)]
        view: View,
    },
    /// Something was in flight, and the process that had it is gone.
    Lost {
        /// What.
        command: Command,
        /// The policy now, with the open calls as they stand.
        view: View,
    },
    /// A start was recorded, and this process knows that it did not dispatch it: the tool is not the one that was
    /// judged, or the run was cancelled in the same append. A later process cannot know it, and reports it as lost.
    NotDispatched {
        /// Which call.
        call: CallKey,
        /// Which start.
        start: u32,
        /// The current policy and open calls: the call is judged again.
        view: View,
    },
    /// The policy changed: open calls that have not started are judged again.
    Rejudge {
        /// The policy now.
        view: View,
    },
    /// The time that `deadline` named has come.
    Tick {
        /// Open interrupts whose whole term has passed by a clock that never jumps, as this process has seen it.
        confirmed: Vec<InterruptId>,
    },
}

impl Input {
    /// Whether only the driver may send it, of what it has in flight or of its policy.
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

/// A result that the model sees a summary of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloaded {
    /// By what it is asked for.
    pub reference: String,
    /// All of its text.
    pub payload: BlobRef,
    /// What the model sees.
    pub summary: Content,
}

/// What a tool keeps with a thread: a list of tasks, for example. It stands and falls with the call's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The name that all calls find it by.
    pub name: String,
    /// All of it.
    pub value: Content,
}

/// A thread that is to begin with the history of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The id of the new thread.
    pub thread: ThreadId,
    /// The last event of the other thread that is copied.
    pub until: Seq,
    /// Who forks it, and owns the new one.
    pub by: Principal,
    /// The folder that the new thread's tools work in.
    pub folder: Option<String>,
    /// The other thread's title by now.
    pub title: Option<String>,
}

/// A message for the agent, with the run that it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewMessage {
    /// The sender's id: the same id is taken once.
    pub id: InputId,
    /// The message.
    pub message: Arc<Message>,
    /// Who sends it.
    pub by: Principal,
    /// The tenant, for a thread that does not exist yet.
    pub workspace: String,
    /// The folder, for a thread that does not exist yet.
    pub folder: Option<String>,
    /// The id of the run that it starts.
    pub run: RunId,
    /// The agent of that run.
    pub agent: Arc<Agent>,
    /// How that run behaves.
    pub options: RunOptions,
    /// What happens while another run is active.
    pub when_busy: WhenBusy,
    /// Recorded in the same append.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Box<Note>>,
}

/// Data of the host program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// The subject.
    pub name: String,
    /// The data.
    pub data: Value,
}

/// What happens to a message while a run is active. (design: "Gate, interrupts, effects, control")
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenBusy {
    /// It is refused.
    Reject,
    /// It is sent after the run ended `done`.
    #[default]
    Queue,
    /// It goes in after the current step's last result.
    Steer,
    /// The run is cancelled, then it is sent.
    Replace,
    /// The run is cancelled and withdrawn, then it is sent.
    Rollback,
}

/// A whole reply of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReplied {
    /// Which step and try.
    pub attempt: Attempt,
    /// The reply's blocks; call ids are unique and not empty.
    pub blocks: Vec<Block>,
    /// Why it ended.
    pub stop: StopReason,
    /// Tokens, as reported.
    pub usage: Usage,
    /// Its cost, where the price is known.
    pub cost: Option<MicroUsd>,
    /// Fingerprint of the request.
    pub request: Fingerprint,
    /// From sending to the first fragment, in milliseconds.
    pub ttft_ms: Option<u64>,
    /// From sending to the end, in milliseconds.
    pub duration_ms: u64,
    /// How long each of its thoughts took to come, in order, in milliseconds; none of a model that does not stream them.
    pub thoughts_ms: Vec<u64>,
    /// The policy now, with the reply's calls looked up.
    pub view: View,
}

/// A failed model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelFailed {
    /// Which step and try.
    pub attempt: Attempt,
    /// What kind of failure.
    pub class: FailureClass,
    /// In plain words.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after_ms: Option<u64>,
    /// Text that had come.
    pub partial: Option<Content>,
}

/// What was said to one interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// Which.
    pub interrupt: InterruptId,
    /// The reply.
    pub answer: Answer,
    /// What the sender saw: an approval counts for that alone. `None`: whatever the interrupt is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Digest>,
}

/// A grant that goes with answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewGrant {
    /// Whose runs it is for.
    pub user: Principal,
    /// The grant.
    pub grant: Grant,
}

/// Who sends an input, as whoever let them in knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// Their name.
    pub principal: Principal,
    /// The tenant that they act in.
    pub workspace: String,
    /// Their roles there; an `admin` may reply wherever no rule names others.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// The role that may reply in everybody's threads, where no rule names others.
pub const ADMIN: &str = "admin";
