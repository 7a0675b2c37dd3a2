//! Conversations: create, list, read, change and delete. (SK-R4..R6)
//!
//! A conversation is a thread; a conversation without a message is a draft.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass::EngineError;
use windlass::machine::{Input, ThreadId, Timestamp};
use windlass::port::journal::{ThreadQuery, ThreadStatus};
use windlass::port::records::Expect;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::{Body, Path, Query};
use windlass_server::http::problem::Problem;
use windlass_server::http::routes::threads::forget;

use super::super::uuid::fresh_uuid;
use super::find::{CHANGED, DRAFT, Draft, Found, create, found, is_uuid, look};
use super::messages::Fold;
use crate::date::{iso, read};
use crate::folds::Folds;

/// Default page size.
const LIMIT: usize = 20;
/// Maximum page size.
const LIMIT_MAX: usize = 50;
/// Minimum length of a search text in characters; a shorter text matches everything.
const QUERY_MIN_CHARS: usize = 2;
/// Number of drafts per read.
const DRAFTS: usize = 200;
/// The first message of every conversation.
const WELCOME: &str = "Welcome! How can I help you with your infrastructure today?";

#[derive(Debug, Deserialize)]
pub struct New {
    #[serde(default)]
    conversation_id: Option<String>,
}

/// Creates a conversation, under the client's id if it is a UUID. (SK-R4)
pub async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Body(new): Body<New>,
) -> Result<Json<Value>, Problem> {
    caller.runs()?;
    let id = new.conversation_id.filter(|id| is_uuid(id)).unwrap_or_else(fresh_uuid);
    let (title, created_at) = match look(&app, &caller, &id).await? {
        Some(Found::Thread(row)) => (row.view.title.unwrap_or_default(), row.created_at),
        Some(Found::Draft(draft)) => (draft.title, draft.created_at),
        None => (String::new(), create(&app, &caller, &id).await?.created_at),
    };
    Ok(Json(json!({"status": "success", "id": id, "title": title, "created_at": iso(created_at)})))
}

#[derive(Debug, Deserialize)]
pub struct Which {
    #[serde(default)]
    limit: Option<i64>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    query: Option<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    id: String,
    title: String,
    created_at: String,
    updated_at: String,
    #[serde(skip)]
    place: (Timestamp, ThreadId),
}

impl Row {
    fn new(id: ThreadId, title: String, created_at: Timestamp, updated_at: Timestamp) -> Self {
        let (created, updated) = (iso(created_at), iso(updated_at));
        let place = (updated_at, id.clone());
        Self { id: id.to_string(), title, created_at: created, updated_at: updated, place }
    }
}

/// Lists the caller's conversations, most recent activity first. (SK-R5)
pub async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Value>, Problem> {
    caller.reads()?;
    let limit = match usize::try_from(which.limit.unwrap_or(0)) {
        Ok(0) | Err(_) => LIMIT,
        Ok(limit) => limit.min(LIMIT_MAX),
    };
    let text = which.query.map(|query| query.trim().to_owned());
    let text = text.filter(|text| text.chars().count() >= QUERY_MIN_CHARS);
    let before = match which.cursor.as_deref().filter(|cursor| !cursor.is_empty()) {
        Some(cursor) => Some(place(&app, &caller, cursor).await?),
        None => None,
    };
    let query = ThreadQuery {
        workspace: Some(caller.workspace().to_owned()),
        owner: Some(caller.user().clone()),
        title_contains: text.clone(),
        before: before.clone(),
        limit: limit + 1,
        ..ThreadQuery::default()
    };
    let threads = app.engine.threads(&query).await?.into_iter();
    let mut rows: Vec<Row> = threads
        .map(|row| {
            let title = row.view.title.unwrap_or_default();
            Row::new(row.thread, title, row.created_at, row.view.updated_at)
        })
        .collect();
    rows.extend(drafts(&app, &caller, text.as_deref(), before.as_ref()).await?);
    rows.sort_by(|one, other| other.place.cmp(&one.place));
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| has_more);
    let next_cursor = last.map(|last| format!("{}|{}", last.updated_at, last.id));
    let pagination = json!({"limit": limit, "next_cursor": next_cursor, "has_more": has_more});
    Ok(Json(json!({"status": "success", "data": rows, "pagination": pagination})))
}

/// Parses a cursor: a timestamp and an id, or one of the two.
async fn place(app: &Shared, caller: &Caller, cursor: &str) -> Result<(Timestamp, ThreadId), Problem> {
    let (moment, id) = cursor.split_once('|').unwrap_or((cursor, ""));
    if let Some(at) = read(moment) {
        return Ok((at, ThreadId::from(id)));
    }
    let bad =
        || Problem::bad_request("Invalid cursor").hint("send `next_cursor` of the previous page, unchanged");
    match look(app, caller, cursor).await?.ok_or_else(bad)? {
        Found::Thread(row) => Ok((row.view.updated_at, row.thread)),
        Found::Draft(draft) => Ok((draft.updated_at, ThreadId::from(draft.id))),
    }
}

/// Returns the caller's drafts on a page. A user has few drafts, because the first message ends a draft.
async fn drafts(
    app: &Shared,
    caller: &Caller,
    text: Option<&str>,
    before: Option<&(Timestamp, ThreadId)>,
) -> Result<Vec<Row>, Problem> {
    let text = text.map(str::to_lowercase);
    let mut rows = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let owner = caller.user().as_str();
        let page = app.engine.records().list(DRAFT, Some(owner), after.as_deref(), DRAFTS).await?;
        let is_last = page.len() < DRAFTS;
        after = page.last().map(|record| record.key.clone());
        for record in page {
            let draft = Draft::read(record)?;
            let row = Row::new(ThreadId::from(draft.id), draft.title, draft.created_at, draft.updated_at);
            let is_found = text.as_ref().is_none_or(|text| row.title.to_lowercase().contains(text));
            let mine = draft.workspace == caller.workspace();
            if mine
                && is_found
                && before.is_none_or(|before| row.place < *before)
                && is_alone(app, &row).await?
            {
                rows.push(row);
            }
        }
        if is_last {
            return Ok(rows);
        }
    }
}

/// Whether no thread has the draft's id. A crash may have left the draft behind.
async fn is_alone(app: &Shared, row: &Row) -> Result<bool, Problem> {
    match app.engine.thread(&row.place.1).row().await {
        Err(EngineError::NoThread(_)) => Ok(true),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(false),
    }
}

/// Returns a conversation with its messages.
pub async fn one(
    State(app): State<Shared>,
    Extension(folds): Extension<Arc<Folds<Fold>>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.reads()?;
    let (created_at, said) = match found(&app, &caller, &id).await? {
        Found::Thread(row) => {
            (row.created_at, Value::from(folds.read(&app.engine, &row.thread).await?.messages))
        }
        Found::Draft(draft) => {
            (draft.created_at, draft.changed.get("messages_json").cloned().unwrap_or_else(|| json!([])))
        }
    };
    let created_at = iso(created_at);
    Ok(Json(json!({
        "status": "success",
        "exists": true,
        "id": id,
        "created_at": created_at,
        "messages": said,
        "system_message": welcome(&created_at),
    })))
}

/// Returns the system's welcome message, first in the sequence. The message is not in `messages`: the Command Center
/// displays those and sends them back, and would show it as an empty card. (SK-R4)
fn welcome(created_at: &str) -> Value {
    json!({"role": "system", "content": WELCOME, "sequence": 1, "created_at": created_at})
}

/// A change of a conversation. Absent members keep their value.
#[derive(Debug, Deserialize)]
pub struct Change {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    is_active: Option<bool>,
    #[serde(default)]
    conversation_metadata: Option<Map<String, Value>>,
    #[serde(default)]
    messages_json: Option<Vec<Map<String, Value>>>,
}

impl Change {
    /// Returns all changes except the title.
    fn rest(self) -> Map<String, Value> {
        let named = [
            ("is_active", self.is_active.map(Value::from)),
            ("conversation_metadata", self.conversation_metadata.map(Value::from)),
            ("messages_json", self.messages_json.map(Value::from)),
        ];
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

pub async fn change(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Body(change): Body<Change>,
) -> Result<Json<Value>, Problem> {
    caller.runs()?;
    let title = change.title.clone().filter(|title| !title.is_empty());
    let rest = change.rest();
    let (title, updated_at) = match found(&app, &caller, &id).await? {
        Found::Thread(row) => {
            if let Some(title) = title {
                app.engine
                    .thread(&row.thread)
                    .send(Input::Title { title, by: caller.user().clone() })
                    .await?;
            }
            if !rest.is_empty() {
                app.engine
                    .thread(&row.thread)
                    .send(Input::Note { name: CHANGED.into(), data: rest.into() })
                    .await?;
            }
            let view = app.engine.thread(&row.thread).row().await?.view;
            (view.title.unwrap_or_default(), view.updated_at)
        }
        Found::Draft(mut draft) => {
            draft.title = title.unwrap_or(draft.title);
            if let Value::Object(changed) = &mut draft.changed {
                changed.extend(rest);
            }
            draft.updated_at = windlass_server::clock::clock().now();
            draft.put(&app, Expect::Any).await?;
            (draft.title, draft.updated_at)
        }
    };
    let updated_at = iso(updated_at);
    Ok(Json(json!({"status": "success", "id": id, "title": title, "updated_at": updated_at})))
}

/// Deletes a conversation after stopping its run.
pub async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.runs()?;
    match found(&app, &caller, &id).await? {
        Found::Thread(row) => {
            if row.view.status != ThreadStatus::Idle {
                end_run(&app, &caller, &row.thread).await?;
            }
            forget(&app, &caller, *row).await?;
        }
        Found::Draft(draft) => draft.delete(&app).await?,
    }
    Ok(Json(json!({"status": "success", "message": "Conversation deleted successfully", "id": id})))
}

/// Cancels the active run and waits until it has ended.
async fn end_run(app: &Shared, caller: &Caller, thread: &ThreadId) -> Result<(), Problem> {
    let machine = app.engine.thread(thread).folded().await?;
    let Some(run) = &machine.state().run else { return Ok(()) };
    // The run may have ended, or another request may have cancelled the run.
    if let Err(error) = app.engine.run(&run.id).cancel(caller.user().clone()).await {
        tracing::debug!(%error, run = %run.id, "the run was not cancelled");
    }
    let ended = app.engine.run(&run.id).wait();
    let within = std::time::Duration::from_secs(10);
    match tokio::time::timeout(within, ended).await {
        Ok(ended) => Ok(ended.map(drop)?),
        Err(_) => {
            Err(Problem::conflict("busy", "the conversation's run has not stopped yet").retry_after(10))
        }
    }
}
