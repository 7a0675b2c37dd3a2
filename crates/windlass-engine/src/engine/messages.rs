//! The messages of a thread as a client shows them: what was said and done, and what became of it.
//!
//! They are read from the journal and stored nowhere. What the engine itself says to the model is left out.

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

/// Messages that are read at once at most.
pub const MESSAGES_MAX: usize = 500;

/// Events read from a journal at a time: a few at first, because most pages need no more, and more each time.
const PAGES: std::ops::RangeInclusive<usize> = 64..=512;

/// A message of a thread, with what a client wants to know of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoredMessage {
    /// Position of the event with which it entered the history; of one that waits, since when it waits. It is the
    /// cursor of the page before.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// The run that it belongs to; of one that waits, the run that it is to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Who speaks.
    pub role: Role,
    /// What is said: texts up to 16 KiB inline, longer ones and media by digest; providers' own items are left out.
    pub blocks: Vec<Block>,
    /// The sender's id of it, for a message to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<InputId>,
    /// Who sent it, for a message to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// The model that said it; for a message to the agent, the one that its run began with or is to begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// For a message to the agent, what its run may do at all; of one that waits, as it is wished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// Tokens of the reply, as reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Cost of the reply, where the price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// Of a reply, from sending to the first fragment, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// Of a reply, from sending to the end, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Of a reply, how long each of its thoughts took to come, in order, in milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thoughts_ms: Vec<u64>,
    /// What became of it.
    pub status: MessageStatus,
    /// Where its calls stand, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<StoredCall>,
    /// What happened to its run after it that no message says: a limit reached, another model, an end that was a failure
    /// or a cancellation.
    #[serde(skip)]
    pub after: Vec<Recorded>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// It stands in the history.
    Complete,
    /// It waits while a run is active.
    Queued,
    /// What had come of a reply that was stopped or failed.
    Partial,
    /// The engine's own words, because the model gave none. The model never sees them.
    Fallback,
    /// It left the prompt with its run, which was taken back.
    Withdrawn,
}

/// Where a tool call stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoredCall {
    /// Its step, and its place among the step's calls.
    #[serde(flatten)]
    pub call: CallKey,
    /// The provider's id of it: what its result names.
    pub id: String,
    /// Which tool.
    pub tool: ToolName,
    /// Where it stands.
    pub state: CallState,
    /// The arguments that are sent, where they are not those that the model asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Content>,
    /// What decided about it: a rule's name, `mode`, or `annotations`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What people were shown that it would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<Content>,
    /// What somebody said to it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
    /// When it is started again, while it sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<InterruptId>,
    /// How it came to its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Whether its result is an error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
    /// From dispatch to the tool's answer, in milliseconds; 0 where the tool gave none.
    pub duration_ms: u64,
}

/// What somebody said to a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// Who.
    pub by: Principal,
    /// When.
    pub at: Timestamp,
    /// What, in a word.
    pub word: AnswerWord,
    /// The option that was chosen, of a question with options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
}

impl Answered {
    /// An answer with its word; `None` for one that has none.
    fn of(answer: &Answer, by: &Principal, at: Timestamp) -> Option<Self> {
        let word = AnswerWord::of(answer)?;
        let selected = match answer {
            Answer::Reply(reply) => reply.selected.clone(),
            _ => None, // tidy: no other answer chooses an option
        };
        Some(Self { by: by.clone(), at, word, selected })
    }
}

/// An answer to a call, in a word; what was said beside it stands in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerWord {
    /// It may run.
    Approved,
    /// It may run with other arguments.
    Edited,
    /// It may not run.
    Denied,
    /// What its tool asked for.
    Replied,
    /// It was in doubt, and was done.
    Done,
    /// It was in doubt, and was not done.
    Retried,
    /// It was in doubt, and counts as failed.
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
            // Of limits, and what nobody said.
            Answer::Raise { .. } | Answer::Stop | Answer::Withdrawn => None,
        }
    }
}

/// Where a tool call stands, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// It waits for its place in the line, or for its preview.
    Waiting,
    /// Somebody is asked.
    Asking,
    /// It was dispatched.
    Running,
    /// It goes on at a time.
    Sleeping,
    /// It was dispatched, and its outcome is unknown.
    InDoubt,
    /// It has its result.
    Done,
}

impl Engine {
    /// The events up to a position that a page is made of. No run is active before them, what is taken among them is
    /// queued among them, and enough messages are among them.
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
    /// The newest messages of a thread, or the newest before a position, the newest last: at most `limit`, and never
    /// more than [`MESSAGES_MAX`]. Results of tools are a message of role `tool`, in the order of their calls, once
    /// the last of a step is there.
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
        // What was read to find the beginning is not read again; later events may change messages of the page.
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
