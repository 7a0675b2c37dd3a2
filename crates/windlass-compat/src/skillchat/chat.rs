//! Chat: takes a message or an answer, and responds with one body or with a stream. (WT-E1..E3)
//!
//! The run continues if the client disconnects. A message to a run that waits for a person replaces that run.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::machine::{
    Answer, AtLimit, Block, Given, Message, Reject, Role, RunError, RunOptions, Surface, WhenBusy,
};
use windlass::port::journal::ThreadStatus;
use windlass::{EngineError, FoldedThread, OpenInterrupt, Outcome, Started, Status, Task};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::failure::{Failure, explain};
use windlass_server::http::input::{Body, parse};
use windlass_server::http::problem::Problem;
use windlass_server::http::routes::interrupts::submit;
use windlass_server::http::start::begin::begin;
use windlass_server::http::start::send::MESSAGE_MAX_CHARS;
use windlass_server::http::start::timezone;
use windlass_server::http::stream::place::StreamPlace;

use super::super::history::{Line, title, told};
use super::super::revision::digest_of;
use super::super::session::{self, Session};
use super::super::stream::{feed, respond};
use super::super::uuid::fresh_uuid;
use super::checkpoint::{Asked, Said, is_expired};
use super::error::{expired, missing, refused};
use super::speak::{MOOD, SkillChat};
use crate::date::iso;

/// Maximum number of messages in a history.
const HISTORY_MAX: usize = 100;
/// Maximum number of messages of a history that are passed to the agent: the newest. (WT-L3)
const HISTORY_TOLD: usize = 12;
/// Header with the time zone, which no body contains. (WT-E9)
const TIMEZONE: &str = "x-user-timezone";
/// The answer text for a run that produced none. (WT-L12)
pub const LAST_RESORT: &str = "I'm here! Something went wrong on my side—please try again or rephrase.";
/// The answer for such a run after a reply to a question. (WT-L12)
const LAST_RESORT_RESUMED: &str = "Done. Anything else?";
/// Result of a question that expired, as the model reads it.
const NO_ANSWER: &str = "no answer within 30 minutes";

/// The body of a message.
#[derive(Debug, Deserialize)]
pub struct Chat {
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    history: Option<Vec<Value>>,
    #[serde(default)]
    doc_id: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
}

/// The body of an answer to a question.
#[derive(Debug, Deserialize)]
pub struct HitlResponse {
    session_id: String,
    checkpoint_id: String,
    #[serde(default)]
    response: Option<Said>,
}

/// Takes a message and responds with one body.
pub async fn chat(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Body(chat): Body<Chat>,
) -> Result<Json<Value>, Problem> {
    let (session, started) = start(&app, &caller, &headers, chat).await?;
    let outcome = app.engine.run(&started.run).wait().await?;
    told_of(&session.name, outcome, LAST_RESORT).map(Json)
}

/// Takes a message and responds with a stream.
pub async fn stream(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Body(chat): Body<Chat>,
) -> Result<Response, Problem> {
    let place = StreamPlace::take(&app, &caller)?;
    let (session, started) = start(&app, &caller, &headers, chat).await?;
    let speaker = SkillChat::new(session.name, fresh_uuid(), started.run);
    let feed = feed(&app, &headers, &started.thread, started.seq);
    Ok(respond(&app, place, feed, speaker, Vec::new()))
}

/// Answers a question and responds with one body. (WT-H6, WT-X2)
pub async fn respond_to(
    State(app): State<Shared>,
    caller: Caller,
    Body(said): Body<HitlResponse>,
) -> Result<Json<Value>, Problem> {
    caller.approves()?;
    let found = session::begun(&app, &caller, &said.session_id).await;
    let (session, _) = found.map_err(|problem| match problem.status {
        StatusCode::NOT_FOUND => expired(),
        _ => problem, // tidy: the other problems are returned unchanged
    })?;
    let thread = &session.thread;
    let folded = app.engine.thread(thread).folded().await?;
    let open = app.engine.open_interrupts(&folded).await?;
    let open = open.into_iter().find(|open| open.interrupt.as_str() == said.checkpoint_id);
    let open = open.ok_or_else(expired)?;
    let run = folded.state().run.as_ref().map(|run| run.id.clone());
    let run = run.ok_or_else(expired)?;
    if is_expired(&open.kind, open.since, windlass_server::clock::now()) {
        let answer = Answer::Deny { reason: Some(NO_ANSWER.to_owned()) };
        // Another client may have closed the question, with the same effect.
        if let Err(error) = give(&app, &caller, &folded, &open, answer).await {
            tracing::debug!(%error, %thread, "an expired question could not be declined");
        }
        return Err(expired());
    }
    let arguments = arguments(&open);
    let answer = asked(&open, &arguments).answer(said.response.unwrap_or_default());
    match give(&app, &caller, &folded, &open, answer).await {
        Err(EngineError::Rejected(Reject::Closed { .. } | Reject::NotFound { .. })) => return Err(expired()),
        given => given?,
    }
    let outcome = app.engine.run(&run).wait().await?;
    told_of(&session.name, outcome, LAST_RESORT_RESUMED).map(Json)
}

async fn give(
    app: &Shared,
    caller: &Caller,
    folded: &FoldedThread,
    open: &OpenInterrupt,
    answer: Answer,
) -> Result<(), EngineError> {
    let given = Given { interrupt: open.interrupt.clone(), answer, approval: digest_of(&open.kind) };
    submit(app, caller, folded, vec![given], Vec::new(), None).await.map(drop)
}

pub fn check(bytes: &[u8]) -> Result<(), Problem> {
    parse::<Chat>(bytes)?.read().map(drop)
}

impl Chat {
    /// Validates the message and its history. (WT-E1)
    fn read(&self) -> Result<(String, Vec<Line>), Problem> {
        let message = self.message.as_deref().unwrap_or_default().trim();
        if message.is_empty() {
            return Err(refused("message_required", "Please enter a message."));
        }
        if message.chars().count() > MESSAGE_MAX_CHARS {
            return Err(refused("message_too_long", "Message is too long (max 32,768 characters)."));
        }
        let history = self.history.as_deref().unwrap_or_default();
        if history.len() > HISTORY_MAX {
            let words = format!("Too many messages in history (max {HISTORY_MAX}). Start a new chat.");
            return Err(refused("history_too_long", words));
        }
        if self.doc_id.as_deref().is_some_and(|id| !id.is_empty()) {
            return Err(missing().hint("omit `doc_id`"));
        }
        // Entries that are no messages are ignored, as clients of the original expect.
        let lines = history.iter().filter_map(|line| serde_json::from_value(line.clone()).ok());
        Ok((message.to_owned(), lines.collect()))
    }
}

/// Starts a run, or queues the message behind the active one.
async fn start(
    app: &Shared,
    caller: &Caller,
    headers: &HeaderMap,
    chat: Chat,
) -> Result<(Session, Started), Problem> {
    caller.runs()?;
    let (message, history) = chat.read()?;
    let zone = headers.get(TIMEZONE).map(|zone| zone.to_str().unwrap_or("?"));
    let utc_offset_minutes = zone.map(timezone::offset_minutes).transpose()?;
    let name = chat.session_id.filter(|name| !name.is_empty()).unwrap_or_else(fresh_uuid);
    let session = session::find(app, caller, &name).await?;
    let before = if session.row.is_none() { told(&history, HISTORY_TOLD) } else { None };
    let has_history = before.is_some();
    let blocks = [message.clone()].into_iter().chain(before).map(Block::text);
    let mut task = Task::new(app.config.agent.clone(), "");
    task.message = Message { role: Role::User, blocks: blocks.collect() };
    task.thread = Some(session.thread.clone());
    // At the step limit, the agent writes a plain answer (WT-L11). Calls run one after another (WT-L5).
    task.options = RunOptions {
        surface: Surface::Chat,
        serialized: true,
        at_limit: Some(AtLimit::Answer),
        utc_offset_minutes,
        ..RunOptions::default()
    };
    let waits = session.row.as_ref().is_some_and(|row| row.view.status == ThreadStatus::Waiting);
    // A new message instead of an answer abandons the open question.
    task.when_busy = if waits { WhenBusy::Replace } else { WhenBusy::Queue };
    let started = begin(app, caller, task).await?;
    if has_history {
        title(app, caller, &started.thread, &message).await?;
    }
    Ok((session, started))
}

/// Encodes the outcome of a run as one body. A failed run gets a fixed text, like a run without an answer, because
/// clients display every answer as the agent's. The reason is in `error`. (WT-L12)
fn told_of(session: &str, outcome: Outcome, last_resort: &str) -> Result<Value, Problem> {
    let created_at = iso(outcome.at);
    let has_fallback = outcome.is_fallback;
    let (content, has_fallback, error) = match outcome.status {
        Status::Done => match outcome.text.filter(|text| !text.trim().is_empty()) {
            Some(text) => (text, has_fallback, None),
            None => (last_resort.to_owned(), true, None),
        },
        Status::Paused => return paused(session, &outcome),
        Status::Failed => (last_resort.to_owned(), true, Some(failed(outcome)?)),
        Status::Cancelled => return Err(refused("invalid_request", "The run was cancelled.")),
        Status::Queued | Status::Running => {
            let words = "The message is queued: the previous run did not end successfully.";
            return Err(Problem::conflict("busy", words));
        }
    };
    let mut told = json!({
        "message": {"role": "assistant", "content": content, "created_at": created_at},
        "mood": MOOD,
        "session_id": session,
        "model_fallback": has_fallback,
    });
    if let (Some(error), Some(members)) = (error, told.as_object_mut()) {
        members.insert("error".into(), error);
    }
    Ok(told)
}

/// Encodes the run's first open question; the next one follows after its answer. (WT-H5, WT-H9)
fn paused(session: &str, outcome: &Outcome) -> Result<Value, Problem> {
    let Some(open) = outcome.interrupts.first() else {
        return Err(Problem::internal(format!("run `{}` waits without an interrupt", outcome.run)));
    };
    let arguments = arguments(open);
    Ok(json!({"hitl": asked(open, &arguments).payload(session), "session_id": session}))
}

fn arguments(open: &OpenInterrupt) -> Value {
    open.arguments.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn asked<'a>(open: &'a OpenInterrupt, arguments: &'a Value) -> Asked<'a> {
    let tool = open.tool.as_deref().unwrap_or_default();
    Asked { interrupt: &open.interrupt, kind: &open.kind, tool, arguments }
}

/// Encodes why the run failed: the error code and a remedy.
fn failed(outcome: Outcome) -> Result<Value, Problem> {
    let Some(error) = outcome.errors.into_iter().next() else {
        return Err(Problem::internal(format!("run `{}` failed without an error", outcome.run)));
    };
    Ok(reason(&RunError { code: error.code, message: error.message, retryable: error.retryable }))
}

pub fn reason(error: &RunError) -> Value {
    let Failure { code, words, hint } = explain(error);
    json!({"code": code, "message": format!("{words}; {hint}")})
}

/// Returns no greeting: the agent has none. (WT-E5)
pub async fn greeting(caller: Caller) -> Result<Json<Value>, Problem> {
    caller.reads()?;
    Ok(Json(json!({"message": null, "session_id": null})))
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: WT-E1, WT-E8
    #[test]
    fn messages_and_histories_have_a_size() {
        let read = |message: String, lines: usize| {
            let history = Some(vec![json!({"role": "user", "content": "x"}); lines]);
            let chat = Chat { message: Some(message), history, doc_id: None, session_id: None };
            chat.read().map(|(_, lines)| lines.len()).map_err(|problem| problem.code.into_owned())
        };
        assert_eq!(read("ä".repeat(MESSAGE_MAX_CHARS), 100), Ok(100));
        assert_eq!(read("ä".repeat(MESSAGE_MAX_CHARS + 1), 0), Err("message_too_long".into()));
        assert_eq!(read("x".into(), 101), Err("history_too_long".into()));
        assert_eq!(read(" \n".into(), 0), Err("message_required".into()));
    }
}
