//! Sends a message to an agent, for both routes that accept messages: validates it, starts the run, and returns its
//! ids.
//!
//! The machine decides how the message is handled while a run is active.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::machine::{AtLimit, Block, Message, Mode, Role, RunOptions, Surface, ThreadId, WhenBusy};
use windlass::{RunTools, Started, Task};

use super::agent::choose;
use super::attach::{Attachment, attach, mentioned};
use super::begin::begin;
use super::timezone;
use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::middleware::idempotency::Claimed;
use crate::http::problem::Problem;

/// Maximum length of a message, in characters. (WT-E1)
pub const MESSAGE_MAX_CHARS: usize = 32_768;
/// Maximum number of blocks of a message.
const BLOCKS_MAX: usize = 64;

/// A message and the options of the run that it starts.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"message": "Read data.csv and write three insights to insights.md", "timezone": "Europe/Rome"}))]
pub struct NewMessage {
    /// Id of the thread. If absent in `POST /runs`, a new thread is created.
    thread: Option<String>,
    /// Content of the message.
    message: Said,
    /// Attached files. Files that the text mentions as `@file` are added; at most 20 in total.
    #[serde(default)]
    #[schema(max_items = 20)]
    attachments: Vec<Attachment>,
    /// Name of the agent. Default: the configured one.
    agent: Option<String>,
    /// Model of the new run, as `provider/model`. Default: the agent's model.
    model: Option<String>,
    /// Mode of the run. Default: the mode of the thread's last run, else that of the agent.
    mode: Option<Purpose>,
    /// How to handle the message while another run is active.
    #[serde(default)]
    when_busy: Busy,
    /// Who reads the answer. It determines the behavior at a limit if `at_limit` is absent.
    #[serde(default)]
    surface: Reader,
    /// Behavior when a limit is reached.
    at_limit: Option<Limit>,
    /// Runs the calls of a step one after another, even read-only ones.
    #[serde(default)]
    serialized: bool,
    /// Time zone for the current time in the prompt: a name such as `Europe/Rome`, `Z`, or an offset such as `+02:00`.
    /// If absent, the prompt contains no time.
    #[schema(example = "Europe/Rome")]
    timezone: Option<String>,
}

/// Content of a message.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Said {
    /// Plain text: 1 to 32,768 characters, not all blank.
    #[schema(title = "Text")]
    Text(String),
    /// A list of blocks.
    #[schema(title = "Blocks")]
    Blocks(Vec<Part>),
}

/// A block of a message.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        #[schema(min_length = 1, max_length = 32768, pattern = "\\S")]
        text: String,
    },
}

/// How to handle a message while a run is active.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Busy {
    /// Reject the message with status 409.
    Reject,
    /// Send it after the active run has completed successfully.
    #[default]
    Queue,
    /// Add it to the active run after the last result of the current step.
    Steer,
    /// Cancel the active run, then send the message.
    Replace,
    /// Cancel the active run and remove it from the prompt, then send the message.
    Rollback,
}

/// Mode: which kinds of calls a run may make, independent of the policy.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[schema(as = Mode)]
#[serde(rename_all = "snake_case")]
enum Purpose {
    /// All calls.
    Agent,
    /// Answer a question: read-only calls. Memory, commands and questions to people are excluded.
    Ask,
    /// Write a plan: read-only calls. Commands are excluded.
    Plan,
}

impl From<Purpose> for Mode {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Agent => Self::Agent,
            Purpose::Ask => Self::Ask,
            Purpose::Plan => Self::Plan,
        }
    }
}

/// Who reads the answer.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Reader {
    /// A person. At a limit the run asks what to do.
    #[default]
    Chat,
    /// A program. At a limit the run fails with an error code.
    Headless,
}

/// Behavior when a limit is reached.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Limit {
    /// The run fails with the limit's error code.
    Fail,
    /// The run waits until a person raises the limit or stops it.
    Ask,
    /// Out of steps, the model writes a final answer from its findings. At any other limit the run fails.
    Answer,
}

impl From<Busy> for WhenBusy {
    fn from(busy: Busy) -> Self {
        match busy {
            Busy::Reject => Self::Reject,
            Busy::Queue => Self::Queue,
            Busy::Steer => Self::Steer,
            Busy::Replace => Self::Replace,
            Busy::Rollback => Self::Rollback,
        }
    }
}

/// The result of sending a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Sent {
    /// Id of the thread.
    thread: String,
    /// Id of the run that the message starts. For a message that steers: the id of the run that it would start.
    run: String,
    /// Id of the message, as used by the queue routes.
    message: String,
    /// Position of the first event that the message caused. To follow the thread, read from the position before it.
    seq: u64,
    /// Whether the message is queued and has not started a run yet.
    queued: bool,
}

impl Said {
    /// Validates the content and converts it to a message.
    pub fn read(self) -> Result<Message, Problem> {
        let texts = match self {
            Self::Text(text) => vec![text],
            Self::Blocks(parts) => parts.into_iter().map(|Part::Text { text }| text).collect(),
        };
        if texts.len() > BLOCKS_MAX {
            let detail = format!("the message has {} blocks; at most {BLOCKS_MAX} are allowed", texts.len());
            return Err(Problem::invalid(detail));
        }
        let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
        if chars > MESSAGE_MAX_CHARS {
            let detail =
                format!("the message has {chars} characters; at most {MESSAGE_MAX_CHARS} are allowed");
            return Err(Problem::invalid(detail).hint("put long texts in a file of the working folder"));
        }
        if texts.is_empty() || texts.iter().any(|text| text.trim().is_empty()) {
            return Err(Problem::invalid("the message, or a block of it, is blank"));
        }
        Ok(Message { role: Role::User, blocks: texts.into_iter().map(Block::text).collect() })
    }
}

/// Sends a message to the given thread, or to a new thread.
pub async fn send(
    app: &Shared,
    caller: &Caller,
    claimed: &Claimed,
    thread: Option<ThreadId>,
    new: NewMessage,
) -> Result<Response, Problem> {
    let named = new.thread.map(ThreadId::from);
    if let (Some(thread), Some(named)) = (&thread, &named)
        && thread != named
    {
        return Err(Problem::invalid(format!("`thread` is `{named}`, but the path has `{thread}`")));
    }
    let thread = thread.or(named);
    let utc_offset_minutes = new.timezone.as_deref().map(timezone::offset_minutes).transpose()?;
    let agent = choose(app, new.agent.as_deref(), new.model.as_deref())?;
    let mut message = new.message.read()?;
    let row = match &thread {
        Some(thread) => Some(caller.thread(app, thread).await?),
        None => None,
    };
    let place = row.map(|row| (row.thread, row.view.folder));
    let attached = attach(app, caller, place.clone(), new.attachments).await?;
    let mentioned = mentioned(app, caller, place, &message, &attached).await?;
    message.blocks.extend(attached.into_iter().chain(mentioned));
    let task = Task {
        agent,
        message,
        thread: thread.or_else(|| claimed.thread()),
        id: claimed.input(),
        by: caller.user().clone(),
        workspace: caller.workspace().to_owned(),
        folder: None,
        tools: RunTools::Usual,
        options: RunOptions {
            surface: match new.surface {
                Reader::Chat => Surface::Chat,
                Reader::Headless => Surface::Headless,
            },
            mode: new.mode.map(Mode::from),
            serialized: new.serialized,
            at_limit: new.at_limit.map(|limit| match limit {
                Limit::Fail => AtLimit::Fail,
                Limit::Ask => AtLimit::Ask,
                Limit::Answer => AtLimit::Answer,
            }),
            utc_offset_minutes,
            ..RunOptions::default()
        },
        when_busy: new.when_busy.into(),
        note: None,
    };
    let started = begin(app, caller, task).await?;
    let Started { thread, run, id, seq, waits, .. } = started;
    let at = format!("/api/v1/runs/{run}");
    let sent = Sent {
        thread: thread.to_string(),
        run: run.to_string(),
        message: id.to_string(),
        seq: seq.0,
        queued: waits,
    };
    let status = if waits { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    Ok((status, [(header::LOCATION, at)], Json(sent)).into_response())
}
