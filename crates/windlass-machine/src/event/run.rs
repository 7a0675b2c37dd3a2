//! The words of events about a run: what starts it, how it behaves, how it ends and what it used.
//!
//! Part of what is serialised for ever; nothing here decides.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::id::{ModelName, Principal, RunId, Seq, ToolName};
use crate::message::{Content, Message, MicroUsd, StopReason, Usage};
use crate::mode::Mode;

/// The agent in a `run.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RunAgent {
    /// The agent of the thread's previous run.
    Same {
        /// Position of the `run.started` with the full agent.
        same_as: Seq,
    },
    /// An agent that differs from that of the previous run.
    Full(Arc<Agent>),
}

impl RunAgent {
    /// Returns the agent if this event has it in full.
    pub fn full(&self) -> Option<&Arc<Agent>> {
        match self {
            Self::Full(agent) => Some(agent),
            Self::Same { .. } => None,
        }
    }
}

/// A message that waits, with what it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// The message.
    pub message: Arc<Message>,
    /// Who sent it.
    pub by: Principal,
    /// When it is taken.
    pub place: Place,
    /// The run that it starts, where it starts one.
    pub run: RunId,
    /// The agent of that run.
    pub agent: Arc<Agent>,
    /// How that run behaves.
    #[serde(default)]
    pub options: RunOptions,
}

/// When a waiting message is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// After the run ended `done`.
    AfterRun,
    /// After the last result of the current step, before the next request.
    AfterStep,
    /// After the run ended, however it ended.
    AfterCancel,
}

/// How a run behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// Who reads the answer.
    pub surface: Surface,
    /// What the run may do at all. As it is wished: `None` takes the thread's last one, else the agent's. As it is recorded
    /// with a run's start: the one that counts, `None` where nobody has ever chosen any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Run the calls of a step one after another, even those that change nothing. (CF-2)
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub serialized: bool,
    /// What happens when a limit is reached; `None`: what suits who reads the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<AtLimit>,
    /// The time zone told to the model with the time, as an offset from UTC in minutes; `None`: no time is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utc_offset_minutes: Option<i32>,
    /// Whether the model sees summaries of long results; `None`: as the program that drives the run is set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<Offload>,
    /// Names of tools that this run alone was given. What they hold is not recorded; a process that does not have them
    /// goes on without, and does not take others of the same name for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_tools: Vec<ToolName>,
    /// How the run's model is reached, where its person said so beside the settings; for the process that resumes the
    /// run. The machine ignores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Box<ModelAccess>>,
}

/// How a provider is reached: an address and the name of a variable, and never a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelAccess {
    /// The provider, such as `openai`. Models of other providers are not concerned.
    pub provider: String,
    /// The address that the key was meant for; `None`: the provider's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Whether the address is left out because it holds a secret; the user who resumes the run has to give it again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub base_url_withheld: bool,
    /// The name of the environment variable with the key; `None`: the key that the settings have for that address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
}

/// From which size on the model sees a summary of a result, and fetches what it needs of it. (LM-O1)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Offload {
    /// Whether it does at all.
    pub enabled: bool,
    /// Bytes of a result's text that it still sees whole.
    pub threshold_bytes: u64,
    /// Characters of a result that a summary shows.
    pub max_preview_chars: usize,
}

impl Default for Offload {
    fn default() -> Self {
        Self { enabled: true, threshold_bytes: 2_048, max_preview_chars: 500 }
    }
}

impl RunOptions {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RunOptions {
    /// The mode that counts in a run that was started with these.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or_default()
    }

    /// What happens when a limit is reached.
    pub fn at_limit(&self) -> AtLimit {
        self.at_limit.unwrap_or(match self.surface {
            Surface::Headless => AtLimit::Fail,
            Surface::Chat => AtLimit::Ask,
        })
    }
}

/// What happens when a run has reached a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// It fails with the limit's code.
    Fail,
    /// It waits for a person, who raises the limit or stops it.
    Ask,
    /// Out of steps, it says in words what it has found; at another limit it fails. (WT-L11)
    Answer,
}

/// Who reads a run's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// A program: a limit that is reached is a typed failure.
    #[default]
    Headless,
    /// A person, who is asked what to do at a limit. (CF-4)
    Chat,
}

/// What a run says at its end: the texts of some of its replies, which stand in their own events, then a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The first and the last step whose replies' texts, put together, belong to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies: Option<(u32, u32)>,
    /// What a failed try had brought, or the engine's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Content>,
}

impl Output {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.replies.is_none() && self.text.is_none()
    }

    /// The engine's own words.
    pub fn words(words: &str) -> Self {
        Self { replies: None, text: Some(words.into()) }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// With an answer.
    Done,
    /// With an error.
    Failed,
    /// By a person or program.
    Cancelled,
}

/// What went wrong in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// A stable code, for example `ERR_RATE_LIMIT`. (LM-X)
    pub code: String,
    /// In plain words.
    pub message: String,
    /// Whether the same run may succeed later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Steps that were started.
    pub steps: u32,
    /// Tool calls that were dispatched.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: u32,
    /// Tokens of all replies.
    pub usage: Usage,
    /// Known cost of all replies; `None` where a price was unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// From start to end, in milliseconds.
    pub duration_ms: u64,
    /// Calls that were dispatched because people approved them.
    #[serde(skip_serializing_if = "is_zero")]
    pub approved: u32,
    /// Calls that people denied.
    #[serde(skip_serializing_if = "is_zero")]
    pub denied: u32,
    /// From sending to the first fragment, in milliseconds, of the first reply that told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Totals {
    /// Adds a reply. A reply that was stopped in the middle reports no cost and leaves the known one as it is.
    pub fn add_reply(
        &mut self,
        stop: &StopReason,
        usage: &Usage,
        cost: Option<MicroUsd>,
        ttft_ms: Option<u64>,
    ) {
        self.usage.add(usage);
        self.ttft_ms = self.ttft_ms.or(ttft_ms);
        if *stop != StopReason::Cancelled || cost.is_some() {
            self.cost = self.cost.zip(cost).map(|(all, one)| MicroUsd(all.0.saturating_add(one.0)));
        }
    }
}

/// What a request says beyond the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepMode {
    /// Nothing.
    #[default]
    Plain,
    /// The last reply was empty: asks again, this many times now. (WT-L9)
    AfterEmpty(u32),
    /// The last reply hit the output cap: asks to go on. (LM-L4)
    Continue,
    /// The last reply hit the output cap inside a call: asks for a smaller one. (LM-L4)
    Smaller,
    /// The step limit was reached: a plain answer from the compacted history, without tools. (WT-L11)
    Fallback,
}

/// What a title cost that a model was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleMade {
    /// The model.
    pub model: ModelName,
    /// Tokens, as reported; where the answer did not come whole, those that it could have had at most.
    pub usage: Usage,
    /// By list price; `None` where none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
}

impl StepMode {
    pub(super) fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}
