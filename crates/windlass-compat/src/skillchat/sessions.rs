//! The caller's sessions: list, read and commit. Every message is already persisted, so a commit changes nothing.
//! (WT-E6)

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::machine::{Block, Content, Role, Seq, ThreadId};
use windlass::port::journal::{ThreadQuery, ThreadRow};
use windlass::{MESSAGES_MAX, MessageStatus, StoredMessage};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::{Path, Query};
use windlass_server::http::problem::Problem;

use super::super::session;
use crate::date::iso;

/// The default length of a list, and its maximum.
#[derive(Clone, Copy)]
struct Length {
    /// Default length if the request names no limit.
    usual: usize,
    max: usize,
}

const SESSIONS: Length = Length { usual: 50, max: 200 };
const MESSAGES: Length = Length { usual: 300, max: 1_000 };

/// The query of a list.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Which {
    limit: Option<usize>,
}

impl Which {
    fn limit(self, Length { usual, max }: Length) -> Result<usize, Problem> {
        let limit = self.limit.unwrap_or(usual);
        match (1..=max).contains(&limit) {
            true => Ok(limit),
            false => Err(Problem::invalid(format!("`limit` is {limit}; it must be 1 to {max}"))),
        }
    }
}

/// Lists the caller's sessions, most recent activity first.
pub async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Value>, Problem> {
    caller.reads()?;
    let query = ThreadQuery {
        workspace: Some(caller.workspace().to_owned()),
        owner: Some(caller.user().clone()),
        limit: which.limit(SESSIONS)?,
        ..ThreadQuery::default()
    };
    let rows = app.engine.threads(&query).await?;
    let sessions: Vec<Value> =
        rows.iter().map(|row| shown(row, &session::name_of(&caller, &row.thread))).collect();
    Ok(Json(json!({"sessions": sessions})))
}

/// Encodes a session's row. Messages are persisted as they arrive, so a session is always committed.
fn shown(row: &ThreadRow, name: &str) -> Value {
    let updated_at = iso(row.view.updated_at);
    json!({
        "id": name,
        "user_id": row.view.owner.as_str(),
        "title": row.view.title,
        "created_at": iso(row.created_at),
        "updated_at": updated_at,
        "last_message_at": updated_at,
        "committed_at": updated_at,
    })
}

/// Returns a session with its newest messages.
pub async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Query(which): Query<Which>,
) -> Result<Json<Value>, Problem> {
    caller.reads()?;
    let limit = which.limit(MESSAGES)?;
    let (name, row) = found(&app, &caller, &name).await?;
    let messages = messages(&app, &row.thread, limit).await?;
    let owner = row.view.owner.as_str();
    let told = messages.into_iter().map(|(message, content)| {
        let id = message.id.as_ref().map_or_else(|| format!("{name}.{}", message.seq.0), ToString::to_string);
        json!({
            "id": id,
            "session_id": name,
            "user_id": owner,
            "role": if message.role == Role::User { "user" } else { "assistant" },
            "content": content,
            "created_at": iso(message.at),
        })
    });
    let messages: Vec<Value> = told.collect();
    Ok(Json(json!({"session": shown(&row, &name), "messages": messages})))
}

/// Confirms that a session is persisted.
pub async fn commit(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.runs()?;
    let (name, _) = found(&app, &caller, &name).await?;
    Ok(Json(json!({"session_id": name, "commit": {"status": "ok"}})))
}

async fn found(app: &Shared, caller: &Caller, name: &str) -> Result<(String, ThreadRow), Problem> {
    let (session, row) = session::begun(app, caller, name).await.map_err(|problem| {
        let missing = problem.status == http::StatusCode::NOT_FOUND;
        if missing { Problem { detail: "Session not found".into(), ..problem } } else { problem }
    })?;
    Ok((session.name, row))
}

/// Returns messages of people and the agent, newest last.
async fn messages(
    app: &Shared,
    thread: &ThreadId,
    limit: usize,
) -> Result<Vec<(StoredMessage, String)>, Problem> {
    let mut newest_first = Vec::new();
    let mut before: Option<Seq> = None;
    while newest_first.len() < limit {
        let page = app.engine.thread(thread).messages(before, MESSAGES_MAX).await?;
        let Some(oldest) = page.first() else { break };
        let is_last = page.len() < MESSAGES_MAX;
        before = Some(oldest.seq);
        for message in page.into_iter().rev() {
            if let Some(content) = content(app, &message).await? {
                newest_first.push((message, content));
            }
        }
        if is_last {
            break;
        }
    }
    newest_first.truncate(limit);
    newest_first.reverse();
    Ok(newest_first)
}

/// Returns the text of a message, or `None` if the message is not part of the chat. In a first message, the second
/// block contains the client's earlier conversation.
async fn content(app: &Shared, message: &StoredMessage) -> Result<Option<String>, Problem> {
    let counts = match message.status {
        MessageStatus::Complete | MessageStatus::Partial | MessageStatus::Fallback => true,
        MessageStatus::Queued | MessageStatus::Withdrawn => false,
    };
    let blocks = match message.role {
        Role::User => 1,
        Role::Assistant => usize::MAX,
        Role::System | Role::Tool => 0,
    };
    let mut content = String::new();
    if counts {
        for block in message.blocks.iter().take(blocks) {
            if let Block::Text { text, .. } = block {
                content.push_str(&whole(app, text).await?);
            }
        }
    }
    Ok((!content.is_empty()).then_some(content))
}

async fn whole(app: &Shared, text: &Content) -> Result<String, Problem> {
    Ok(match text.inline() {
        Some(text) => text.to_owned(),
        None => app.engine.text(text).await?,
    })
}
