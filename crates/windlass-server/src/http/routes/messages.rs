//! `/threads/{thread}/messages`: what is said and done in a conversation, and saying more.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass::machine::{Block, Content, Fact, Mode, Output, Role, Seq, ThreadId};
use windlass::{MessageStatus, StoredMessage};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Body, Path, Query};
use crate::http::middleware::idempotency::{Claimed, IdempotencyKey};
use crate::http::page::{Page, PageQuery};
use crate::http::problem::Problem;
use crate::http::start::send::{NewMessage, Sent, send};

/// Bytes of texts stored apart that a page puts back; those beyond it stay named by digest.
const TEXTS_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list, post))
}

/// A message of a conversation.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Message {
    /// Position of the event with which it entered the history; of one that waits, since when it waits.
    seq: u64,
    /// When, in milliseconds since the Unix epoch.
    at: u64,
    /// The run that it belongs to; of one that waits, the run that it is to start.
    run: Option<String>,
    /// Who speaks.
    role: Speaker,
    /// What is said: text, reasoning, calls of tools, their results, pictures and files.
    #[schema(value_type = Vec<Object>)]
    blocks: Vec<Value>,
    /// The sender's id of it, for a message to the agent.
    id: Option<String>,
    /// Who sent it, for a message to the agent.
    by: Option<String>,
    /// The model that said it; for a message to the agent, the one that its run began with or is to begin with.
    model: Option<String>,
    /// For a message to the agent, what its run may do at all: `agent`, `ask` or `plan`; of one that waits, as it is
    /// wished.
    #[schema(value_type = Option<String>)]
    mode: Option<Mode>,
    /// Why the model stopped.
    #[schema(value_type = Option<Value>)]
    stop: Option<Value>,
    /// Tokens of the reply, as reported.
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
    /// Cost of the reply in millionths of a US dollar, where the price is known.
    cost_micro_usd: Option<u64>,
    /// Of a reply, from sending to the first fragment, in milliseconds.
    ttft_ms: Option<u64>,
    /// Of a reply, from sending to the end, in milliseconds.
    duration_ms: Option<u64>,
    /// Of a reply, how long each of its thoughts took to come, in order, in milliseconds; none where the model does not
    /// stream them, and none of a reply that was stopped.
    thoughts_ms: Vec<u64>,
    /// What became of it.
    status: Became,
    /// Where its calls stand, in order.
    #[schema(value_type = Vec<Object>)]
    calls: Vec<Value>,
    /// What happened to its run after it that no message says, as `/events` has it: `limit.reached`, `model.switched`,
    /// and the `run.finished` of a run that failed or was cancelled, without its `output`: that is the message.
    #[schema(value_type = Vec<Object>)]
    after: Vec<Value>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Speaker {
    /// The engine's or the host program's instructions.
    System,
    /// A person or a program that gives the task.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MessageStatus)]
enum Became {
    /// It stands in the history.
    Complete,
    /// It waits while a run is active.
    Queued,
    /// What had come of a reply that was stopped or failed.
    Partial,
    /// The engine's own words, because the model gave none.
    Fallback,
    /// It left the prompt with its run, which was taken back.
    Withdrawn,
}

impl From<Role> for Speaker {
    fn from(role: Role) -> Self {
        match role {
            Role::System => Self::System,
            Role::User => Self::User,
            Role::Assistant => Self::Assistant,
            Role::Tool => Self::Tool,
        }
    }
}

impl From<MessageStatus> for Became {
    fn from(status: MessageStatus) -> Self {
        match status {
            MessageStatus::Complete => Self::Complete,
            MessageStatus::Queued => Self::Queued,
            MessageStatus::Partial => Self::Partial,
            MessageStatus::Fallback => Self::Fallback,
            MessageStatus::Withdrawn => Self::Withdrawn,
        }
    }
}

fn json(value: impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(Problem::internal)
}

impl Message {
    async fn of(app: &Shared, stored: StoredMessage) -> Result<Self, Problem> {
        let mut after = Vec::with_capacity(stored.after.len());
        for mut recorded in stored.after {
            // The message before it says that already, as far as the page has room.
            if let Fact::RunFinished { output, .. } = &mut recorded.event.fact {
                *output = Output::default();
            }
            after.push(app.engine.event_json(&recorded).await?);
        }
        Ok(Self {
            seq: stored.seq.0,
            at: stored.at.0,
            run: stored.run.map(|run| run.to_string()),
            role: stored.role.into(),
            blocks: stored.blocks.into_iter().map(json).collect::<Result<_, _>>()?,
            id: stored.id.map(|id| id.to_string()),
            by: stored.by.map(|by| by.to_string()),
            model: stored.model.map(|model| model.to_string()),
            mode: stored.mode,
            stop: stored.stop.map(json).transpose()?,
            usage: stored.usage.map(json).transpose()?,
            cost_micro_usd: stored.cost.map(|cost| cost.0),
            ttft_ms: stored.ttft_ms,
            duration_ms: stored.duration_ms,
            thoughts_ms: stored.thoughts_ms,
            status: stored.status.into(),
            calls: stored.calls.into_iter().map(json).collect::<Result<_, _>>()?,
            after,
        })
    }
}

/// Puts texts that are stored apart back, as far as a page may grow.
async fn put_back(app: &Shared, blocks: &mut [Block], left: &mut u64) -> Result<(), Problem> {
    for block in blocks {
        let text = match block {
            Block::Text { text, .. } | Block::Reasoning { text, .. } => text,
            Block::ToolCall(call) => &mut call.asked,
            Block::ToolResult(result) => {
                // Results hold no results.
                Box::pin(put_back(app, &mut result.content, left)).await?;
                continue;
            }
            Block::Image { .. } | Block::File { .. } | Block::Opaque { .. } => continue,
        };
        fetch(app, text, left).await?;
    }
    Ok(())
}

/// Puts one text back.
async fn fetch(app: &Shared, text: &mut Content, left: &mut u64) -> Result<(), Problem> {
    if let Content::Blob(blob) = text
        && blob.size_bytes <= *left
    {
        *left -= blob.size_bytes;
        *text = Content::Inline(app.engine.text(text).await?);
    }
    Ok(())
}

/// What is said in a conversation: the newest page first, in each page the newest message last
#[utoipa::path(get, path = "/threads/{thread}/messages", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), PageQuery),
    responses((status = 200, body = Page<Message>)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Message>>, Problem> {
    caller.reads()?;
    caller.reads_thread(&app, &thread).await?;
    let limit = page.limit()?;
    let mut stored = app.engine.thread(&thread).messages(page.after::<Seq>()?, limit + 1).await?;
    let is_more = stored.len() > limit;
    let beyond = stored.len().saturating_sub(limit);
    stored.drain(..beyond);
    let next = stored.first().filter(|_| is_more).map(|oldest| oldest.seq);
    let mut left = TEXTS_MAX_BYTES;
    let mut data = Vec::with_capacity(stored.len());
    for mut message in stored {
        put_back(&app, &mut message.blocks, &mut left).await?;
        for call in &mut message.calls {
            for text in call.arguments.iter_mut().chain(&mut call.preview) {
                fetch(&app, text, &mut left).await?;
            }
        }
        data.push(Message::of(&app, message).await?);
    }
    Ok(Json(Page::until(data, next.as_ref())))
}

/// Sends a message to a conversation
///
/// Where no run is active it starts one; else `when_busy` says what happens.
#[utoipa::path(post, path = "/threads/{thread}/messages", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IdempotencyKey), request_body = NewMessage,
    responses((status = 201, body = Sent, description = "the run has begun",
            headers(("Location" = String, description = "the run"))),
        (status = 202, body = Sent, description = "the message waits behind another run",
            headers(("Location" = String, description = "the run")))))]
async fn post(
    State(app): State<Shared>,
    caller: Caller,
    claimed: Claimed,
    Path(thread): Path<ThreadId>,
    Body(new): Body<NewMessage>,
) -> Result<Response, Problem> {
    caller.runs()?;
    send(&app, &caller, &claimed, Some(thread), new).await
}
