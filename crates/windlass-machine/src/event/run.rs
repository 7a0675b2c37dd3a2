//! Types of events about a run: its start, options, end and usage.
//!
//! The types are part of the permanent journal format. This module makes no decisions.

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
    /// Returns the agent if this event contains it in full.
    pub fn full(&self) -> Option<&Arc<Agent>> {
        match self {
            Self::Full(agent) => Some(agent),
            Self::Same { .. } => None,
        }
    }
}

/// A queued message with the run that it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// Content of the message.
    pub message: Arc<Message>,
    /// The sender.
    pub by: Principal,
    /// The point at which the message enters the history.
    pub place: Place,
    /// The run that the message starts, unless the message is added to the active run.
    pub run: RunId,
    /// Agent of that run.
    pub agent: Arc<Agent>,
    /// Options of that run.
    #[serde(default)]
    pub options: RunOptions,
}

/// The point at which a queued message enters the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// After the run ended `done`.
    AfterRun,
    /// After the last result of the current step, before the next request.
    AfterStep,
    /// After the run ended, with any status.
    AfterCancel,
}

/// Options of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// Audience of the answer.
    pub surface: Surface,
    /// Mode of the run. In a request, `None` selects the thread's last mode, else the agent's. In the recorded start,
    /// this is the effective mode; `None` if no mode was ever chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Run the calls of a step sequentially, even pure calls. (CF-2)
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub serialized: bool,
    /// The reaction to a reached limit; `None`: the default for the surface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<AtLimit>,
    /// Time zone for times shown to the model, as an offset from UTC in minutes; `None`: the model gets no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utc_offset_minutes: Option<i32>,
    /// Whether the model sees summaries of long results; `None`: the default of the program that drives the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<Offload>,
    /// Names of the run's own tools. Their content is not recorded. A process without these tools drives the run
    /// without them, and never uses other tools of the same names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_tools: Vec<ToolName>,
    /// Address and key reference of the run's model, if the user set them beside the settings. The process that
    /// resumes the run needs them; the machine ignores them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Box<ModelAccess>>,
}

/// Access to a provider: an address and the name of an environment variable, never a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelAccess {
    /// Name of the provider, such as `openai`. Models of other providers are not affected.
    pub provider: String,
    /// Address that the key belongs to; `None`: the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Whether the address was omitted because it contains a secret; the user who resumes the run must provide it
    /// again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub base_url_withheld: bool,
    /// Name of the environment variable with the key; `None`: the key in the settings for that address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
}

/// The conditions for offloading a result. (LM-O1)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Offload {
    /// Whether results are offloaded at all.
    pub enabled: bool,
    /// Maximum size in bytes of a text that the model still sees in full.
    pub threshold_bytes: u64,
    /// Maximum number of characters of a result that a summary shows.
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
    /// Returns the effective mode of a run with these options.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or_default()
    }

    /// Returns the reaction to a reached limit.
    pub fn at_limit(&self) -> AtLimit {
        self.at_limit.unwrap_or(match self.surface {
            Surface::Headless => AtLimit::Fail,
            Surface::Chat => AtLimit::Ask,
        })
    }
}

/// The reaction of a run to a reached limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// The run fails with the limit's code.
    Fail,
    /// The run waits for a person, who raises the limit or ends the run.
    Ask,
    /// At the step limit, the run ends with a plain answer about its findings; at other limits it fails. (WT-L11)
    Answer,
}

/// Audience of a run's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// A program: a reached limit is a typed failure.
    #[default]
    Headless,
    /// A person: the run asks the person at a reached limit. (CF-4)
    Chat,
}

/// The final text of a run: the texts of some replies, which are in their own events, then a further text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// First and last step whose replies' texts belong to the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies: Option<(u32, u32)>,
    /// Partial text of a failed attempt, or a text from the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Content>,
}

impl Output {
    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.replies.is_none() && self.text.is_none()
    }

    /// Creates an output with a text from the engine.
    pub fn words(words: &str) -> Self {
        Self { replies: None, text: Some(words.into()) }
    }
}

/// Final status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Ended with an answer.
    Done,
    /// Ended with an error.
    Failed,
    /// Cancelled by a person or program.
    Cancelled,
}

/// The reason why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// A stable code, for example `ERR_RATE_LIMIT`. (LM-X)
    pub code: String,
    /// Description in plain language.
    pub message: String,
    /// Whether the same run may succeed later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
}

/// Usage of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Number of started steps.
    pub steps: u32,
    /// Number of dispatched tool calls.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: u32,
    /// Token counts of all replies.
    pub usage: Usage,
    /// Known cost of all replies; `None` if a price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// Milliseconds from start to end.
    pub duration_ms: u64,
    /// Calls that were dispatched after people approved them.
    #[serde(skip_serializing_if = "is_zero")]
    pub approved: u32,
    /// Calls that people denied.
    #[serde(skip_serializing_if = "is_zero")]
    pub denied: u32,
    /// Milliseconds from the request to the first fragment, for the first reply with this measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Totals {
    /// Adds a reply. A reply that was stopped midway reports no cost and does not change the known cost.
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

/// The reason why a step runs, which may add texts to its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepMode {
    /// A regular step.
    #[default]
    Plain,
    /// The last reply was empty: repeat the request. The value is the number of these repetitions. (WT-L9)
    AfterEmpty(u32),
    /// The last reply hit the output maximum: ask the model to continue. (LM-L4)
    Continue,
    /// The last reply hit the output maximum inside a call: ask for a smaller call. (LM-L4)
    Smaller,
    /// The step limit was reached: ask for a plain answer from the compacted history, without tools. (WT-L11)
    Fallback,
}

/// Cost of a title that a model generated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleMade {
    /// The called model.
    pub model: ModelName,
    /// Token counts; if the answer was incomplete, the maximum number of tokens that it can have used.
    pub usage: Usage,
    /// Cost by list price; `None` if the price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
}

impl StepMode {
    pub(super) fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}
