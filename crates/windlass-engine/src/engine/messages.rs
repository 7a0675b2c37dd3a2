//! The messages of a thread in the form for clients: content, calls and their states.
//!
//! The messages are computed from the journal and never stored. Texts that the engine adds for the model are omitted.

mod fold;

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use windlass_machine::{
    Agent, Answer, Block, CallKey, Content, Fact, InputId, InterruptId, MicroUsd, Mode, ModelName, Outcome,
    Principal, Role, RunAgent, RunId, Seq, StopReason, ThreadId, Timestamp, ToolName, Usage,
};

use crate::engine::Engine;
use crate::engine::handle::ThreadHandle;
use crate::engine::messages::fold::Fold;
use crate::error::EngineError;
use crate::port::journal::Recorded;

/// Maximum number of messages in one read.
pub const MESSAGES_MAX: usize = 500;

/// Range of the number of events in a journal page. The first page is
/// small, because most requests need few events; later pages grow.
const PAGES: std::ops::RangeInclusive<usize> = 64..=512;

/// A message of a thread, with its metadata for clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoredMessage {
    /// Position of the event that added it to the history; for a queued message, of the event that queued it. It is
    /// the cursor of the previous page.
    pub seq: Seq,
    /// Time of the event that added or queued the message.
    pub at: Timestamp,
    /// Run of the message; for a queued message, the run that it will start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Author role of the message.
    pub role: Role,
    /// Content: texts up to 16 KiB inline, longer texts and media by digest. Items of a provider's own format are
    /// omitted.
    pub blocks: Vec<Block>,
    /// The sender's id, for a message to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<InputId>,
    /// The sender, for a message to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// The model that generated it; for a message to the agent, the model that its run starts with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// Mode of the run, for a message to the agent; for a queued message, the requested mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The reason why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// Token counts of the reply, as the provider reported them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Cost of the reply; `None` if the price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// Milliseconds from the request to the first fragment of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// Milliseconds from the request to the end of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Duration of each reasoning block of the reply, in order, in milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thoughts_ms: Vec<u64>,
    /// Current state of the message.
    pub status: MessageStatus,
    /// The tool calls of the message, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<StoredCall>,
    /// Later events of the message's run that no message shows: a
    /// reached limit, a model switch, a failure or a cancellation.
    #[serde(skip)]
    pub after: Vec<Recorded>,
}

/// State of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// Part of the history.
    Complete,
    /// Queued while a run is active.
    Queued,
    /// The received part of a reply that was stopped or failed.
    Partial,
    /// Text from the engine, because the model gave no text. The model never sees this text.
    Fallback,
    /// Removed from the prompt, because its run was rolled back.
    Withdrawn,
}

/// A tool call of a message and its state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoredCall {
    /// Step of the call, and its index in the step.
    #[serde(flatten)]
    pub call: CallKey,
    /// The provider's id of the call, which the result references.
    pub id: String,
    /// Name of the called tool.
    pub tool: ToolName,
    /// Current state of the call.
    pub state: CallState,
    /// The arguments that are sent, if they differ from those that the model wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Content>,
    /// The source of the verdict: a rule's name, `mode`, or `annotations`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The preview that the approvers saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<Content>,
    /// The last answer of a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
    /// Time at which a deferred call is started again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The interrupt that the call waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<InterruptId>,
    /// How the call got its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Whether the result is an error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
    /// Milliseconds from dispatch to the tool's answer; 0 if the tool gave none.
    pub duration_ms: u64,
}

/// A person's answer to an interrupt of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// The person who answered.
    pub by: Principal,
    /// Time of the answer.
    pub at: Timestamp,
    /// Kind of the answer.
    pub word: AnswerWord,
    /// The chosen option, for a question with options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
}

impl Answered {
    /// Converts an answer; `None` if it has no kind for calls.
    fn of(answer: &Answer, by: &Principal, at: Timestamp) -> Option<Self> {
        let word = AnswerWord::of(answer)?;
        let selected = match answer {
            Answer::Reply(reply) => reply.selected.clone(),
            _ => None, // tidy: no other answer chooses an option
        };
        Some(Self { by: by.clone(), at, word, selected })
    }
}

/// Kind of an answer to a call. The journal has its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerWord {
    /// The call may run.
    Approved,
    /// The call may run with other arguments.
    Edited,
    /// The call may not run.
    Denied,
    /// The reply that the tool requested.
    Replied,
    /// A call in doubt took effect.
    Done,
    /// A call in doubt did not take effect and is repeated.
    Retried,
    /// A call in doubt is treated as failed.
    Failed,
}

impl AnswerWord {
    fn of(answer: &Answer) -> Option<Self> {
        match answer {
            Answer::Approve => Some(Self::Approved),
            Answer::Edit { .. } => Some(Self::Edited),
            Answer::Deny { .. } => Some(Self::Denied),
            Answer::Reply(_) => Some(Self::Replied),
            Answer::Done { .. } => Some(Self::Done),
            Answer::Retry => Some(Self::Retried),
            Answer::Fail { .. } => Some(Self::Failed),
            // The other answers concern limits, or come from no person.
            Answer::Raise { .. } | Answer::Stop | Answer::Withdrawn => None,
        }
    }
}

/// State of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Waits for other calls of the step, or for its preview.
    Waiting,
    /// Waits for an answer to its interrupt.
    Asking,
    /// Dispatched and running.
    Running,
    /// Deferred until a time.
    Sleeping,
    /// Dispatched, with unknown outcome.
    InDoubt,
    /// Has its result.
    Done,
}

impl Engine {
    /// Reads the events that a page needs, up to a position. No run is active before the first event. The events
    /// contain enough messages, and the queueing of each message that was taken from the queue.
    async fn page_events(
        &self,
        thread: &ThreadId,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Recorded>, EngineError> {
        let mut before = before.unwrap_or(Seq(u64::MAX));
        let (mut count, mut taken) = (0, HashSet::new());
        let mut events: Vec<Recorded> = Vec::new();
        let mut size = *PAGES.start();
        'back: loop {
            let page = self.services.store.journal.read_back(thread, before, size).await?;
            let Some(first) = page.first().map(|recorded| recorded.seq) else { break };
            (before, size) = (first, (2 * size).min(*PAGES.end()));
            for recorded in page.into_iter().rev() {
                let is_begin = match &recorded.event.fact {
                    Fact::RunStarted { .. } => count >= limit && taken.is_empty(),
                    _ => false, // tidy: no page begins with the other kinds
                };
                match &recorded.event.fact {
                    Fact::MessageReceived { .. } => count += 1,
                    Fact::StepReplied { message, .. } => count += usize::from(message.has_answer()),
                    Fact::MessageTaken { id } => {
                        count += 1;
                        taken.insert(id.clone());
                    }
                    Fact::MessageQueued { id, .. } => drop(taken.remove(id)),
                    _ => {} // tidy: the other kinds bring no message
                }
                events.push(recorded);
                if is_begin {
                    break 'back;
                }
            }
        }
        events.reverse();
        Ok(events)
    }

    /// Resolves the agent of the first run in `events` if its `run.started` refers to an earlier event.
    async fn earlier_agent(
        &self,
        thread: &ThreadId,
        events: &[Recorded],
    ) -> Result<Option<Arc<Agent>>, EngineError> {
        let agent = events.iter().find_map(|recorded| match &recorded.event.fact {
            Fact::RunStarted { agent, .. } => Some(agent),
            _ => None, // tidy: no other kind names an agent
        });
        let Some(RunAgent::Same { same_as }) = agent else { return Ok(None) };
        let before = Seq(same_as.0.saturating_sub(1));
        let found = self.services.store.journal.read(thread, before, 1).await?;
        Ok(found.first().and_then(|recorded| match &recorded.event.fact {
            Fact::RunStarted { agent, .. } => agent.full().cloned(),
            _ => None, // tidy: no other kind has an agent
        }))
    }
}

impl ThreadHandle<'_> {
    /// Returns the newest messages of a thread, or the newest messages before a position, oldest first. Returns at
    /// most `limit` and at most [`MESSAGES_MAX`]. The results of a step's tools form one message of role `tool`, in
    /// call order, once the last result is recorded.
    pub async fn messages(
        self,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<StoredMessage>, EngineError> {
        let Self { engine, id: thread } = self;
        if engine.services.store.journal.head(thread).await?.is_none() {
            return Err(EngineError::NoThread(thread.clone()));
        }
        let limit = limit.clamp(1, MESSAGES_MAX);
        let mut events = engine.page_events(thread, before, limit).await?;
        let earlier = engine.earlier_agent(thread, &events).await?;
        let mut fold = Fold::new(before, limit, earlier.as_deref());
        let mut size = *PAGES.start();
        // The events that were read to find the beginning are not
        // read again. Later events may change messages of the page.
        let newest = before.unwrap_or_default().0.saturating_sub(1);
        let mut after = events.last().map_or(Seq(newest), |last| last.seq);
        loop {
            for recorded in &events {
                fold.see(recorded);
                if fold.is_settled() {
                    return Ok(fold.into_messages());
                }
            }
            events = engine.services.store.journal.read(thread, after, size).await?;
            let Some(last) = events.last() else { return Ok(fold.into_messages()) };
            (after, size) = (last.seq, (2 * size).min(*PAGES.end()));
        }
    }
}
