//! A message for an agent, as both of its routes take it: checked, sent once, and answered with where to look.
//!
//! What happens to it while a run is active is the machine's to decide.

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

/// Longest message, in characters. (WT-E1)
pub const MESSAGE_MAX_CHARS: usize = 32_768;
/// Blocks of a message at most.
const BLOCKS_MAX: usize = 64;

/// A message, and how the run that it starts behaves.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"message": "Read data.csv and write three insights to insights.md", "timezone": "Europe/Rome"}))]
pub struct NewMessage {
    /// The thread that it goes to; absent in `POST /runs`: a new one is made.
    thread: Option<String>,
    /// What is said.
    message: Said,
    /// Files that go with it, beside those that its text names as `@file`; at most 20 together.
    #[serde(default)]
    #[schema(max_items = 20)]
    attachments: Vec<Attachment>,
    /// The agent; absent: the configured one.
    agent: Option<String>,
    /// The model of a run that it starts, `provider/model`; absent: the agent's.
    model: Option<String>,
    /// What the run may do at all; absent: as in the thread's last run, else the agent's mode.
    mode: Option<Purpose>,
    /// What happens while another run is active.
    #[serde(default)]
    when_busy: Busy,
    /// Who reads the answer: decides what happens at a limit where `at_limit` does not.
    #[serde(default)]
    surface: Reader,
    /// What happens when a limit is reached.
    at_limit: Option<Limit>,
    /// Runs the calls of a step one after another, even those that change nothing.
    #[serde(default)]
    serialized: bool,
    /// The time zone told to the model with the time: a name such as `Europe/Rome`, or `Z`, or an offset such as
    /// `+02:00`. Absent: no time is told.
    #[schema(example = "Europe/Rome")]
    timezone: Option<String>,
}

/// What is said.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Said {
    /// In words: 1 to 32,768 characters, not all blank.
    #[schema(title = "Text")]
    Text(String),
    /// In parts.
    #[schema(title = "Blocks")]
    Blocks(Vec<Part>),
}

/// A part of a message.
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

/// What happens to a message while a run is active.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Busy {
    /// It is refused: 409.
    Reject,
    /// It is sent after the run has ended well.
    #[default]
    Queue,
    /// It goes in after the current step's last result.
    Steer,
    /// The run is cancelled, then it is sent.
    Replace,
    /// The run is cancelled and taken back, then it is sent.
    Rollback,
}

/// What a run may do at all, whatever the gate would let through.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[schema(as = Mode)]
#[serde(rename_all = "snake_case")]
enum Purpose {
    /// Everything.
    Agent,
    /// Answer: only what reads, without memory, commands and questions to people.
    Ask,
    /// Make a plan: only what reads, without commands.
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
    /// A person, who is asked what to do at a limit.
    #[default]
    Chat,
    /// A program: a limit that is reached is a typed failure.
    Headless,
}

/// What happens when a limit is reached.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Limit {
    /// The run fails with the limit's code.
    Fail,
    /// It waits for a person, who raises the limit or stops it.
    Ask,
    /// Out of steps, it says in words what it has found; at another limit it fails.
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

/// What became of a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Sent {
    /// The thread.
    thread: String,
    /// The run that it starts; for a message that steers, should it still start one.
    run: String,
    /// The message's id, which the queue names it by.
    message: String,
    /// Position of the first event that it led to: follow the thread from before it.
    seq: u64,
    /// Whether it waits, and starts nothing yet.
    queued: bool,
}

impl Said {
    /// The message, where it fits.
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
            return Err(Problem::invalid(detail).hint("put long texts into a file of the working folder"));
        }
        if texts.is_empty() || texts.iter().any(|text| text.trim().is_empty()) {
            return Err(Problem::invalid("the message is blank, or a block of it is"));
        }
        Ok(Message { role: Role::User, blocks: texts.into_iter().map(Block::text).collect() })
    }
}

/// Sends a message to a thread, or to one that is made for it.
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
        return Err(Problem::invalid(format!("`thread` is `{named}`, and the path names `{thread}`")));
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
