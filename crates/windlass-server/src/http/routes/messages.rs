//! `/threads/{thread}/messages`: lists the messages of a thread, and sends a message to it.

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

/// Maximum size of the offloaded texts that a page includes inline, in bytes. The page refers to further texts by
/// digest.
const TEXTS_MAX_BYTES: u64 = 4 * 1024 * 1024;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list, post))
}

/// A message of a thread.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Message {
    /// Position of the event that added it to the history. For a queued message, the event that queued it.
    seq: u64,
    /// Time in milliseconds since the Unix epoch.
    at: u64,
    /// Id of its run. For a queued message, the run that it will start.
    run: Option<String>,
    /// Role of the author.
    role: Speaker,
    /// Content: text, reasoning, tool calls, tool results, images and files.
    #[schema(value_type = Vec<Object>)]
    blocks: Vec<Value>,
    /// Id that the sender gave it; only for messages to the agent.
    id: Option<String>,
    /// Id of the sender; only for messages to the agent.
    by: Option<String>,
    /// The model that wrote it. For a message to the agent, the first model of its run.
    model: Option<String>,
    /// For a message to the agent, the mode of its run: `agent`, `ask` or `plan`. For a queued message, the requested
    /// mode.
    #[schema(value_type = Option<String>)]
    mode: Option<Mode>,
    /// Why the model stopped.
    #[schema(value_type = Option<Value>)]
    stop: Option<Value>,
    /// Tokens of the reply, as reported by the provider.
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
    /// Cost of the reply in millionths of a US dollar, if the price is known.
    cost_micro_usd: Option<u64>,
    /// For a reply: milliseconds from sending the request to the first delta.
    ttft_ms: Option<u64>,
    /// For a reply: milliseconds from sending the request to the end.
    duration_ms: Option<u64>,
    /// For a reply: duration of each reasoning block in milliseconds, in order. Empty if the model does not stream
    /// reasoning, or if the reply was stopped.
    thoughts_ms: Vec<u64>,
    /// Status of the message.
    status: Became,
    /// State of its tool calls, in order.
    #[schema(value_type = Vec<Object>)]
    calls: Vec<Value>,
    /// Later events of its run that no message represents, in the form of `/events`: `limit.reached`,
    /// `model.switched`, and the `run.finished` of a failed or cancelled run. Its `output` is omitted, because the
    /// message contains it.
    #[schema(value_type = Vec<Object>)]
    after: Vec<Value>,
}

/// Role of the author of a message.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Speaker {
    /// Instructions of the engine or the host program.
    System,
    /// A person or a program that gives the task.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
}

/// Status of a message.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MessageStatus)]
enum Became {
    /// Part of the history.
    Complete,
    /// Queued while a run is active.
    Queued,
    /// Partial content of a reply that was stopped or failed.
    Partial,
    /// Written by the engine, because the model returned no text.
    Fallback,
    /// Removed from the prompt because its run was rolled back.
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
            // The preceding message contains the same text, up to the size limit of the page. Do not send the text
            // twice.
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

/// Loads offloaded texts into the blocks, up to the size limit of the page.
async fn put_back(app: &Shared, blocks: &mut [Block], left: &mut u64) -> Result<(), Problem> {
    for block in blocks {
        let text = match block {
            Block::Text { text, .. } | Block::Reasoning { text, .. } => text,
            Block::ToolCall(call) => &mut call.asked,
            Block::ToolResult(result) => {
                // Results contain no nested results, so the recursion is bounded.
                Box::pin(put_back(app, &mut result.content, left)).await?;
                continue;
            }
            Block::Image { .. } | Block::File { .. } | Block::Opaque { .. } => continue,
        };
        fetch(app, text, left).await?;
    }
    Ok(())
}

/// Loads one text.
async fn fetch(app: &Shared, text: &mut Content, left: &mut u64) -> Result<(), Problem> {
    if let Content::Blob(blob) = text
        && blob.size_bytes <= *left
    {
        *left -= blob.size_bytes;
        *text = Content::Inline(app.engine.text(text).await?);
    }
    Ok(())
}

/// List the messages of a conversation: the newest page first, with the oldest message of each page first
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

/// Send a message to a conversation
///
/// It starts a run if none is active; otherwise `when_busy` determines what happens.
#[utoipa::path(post, path = "/threads/{thread}/messages", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IdempotencyKey), request_body = NewMessage,
    responses((status = 201, body = Sent, description = "the run has started",
            headers(("Location" = String, description = "the run"))),
        (status = 202, body = Sent, description = "the message is queued behind another run",
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
