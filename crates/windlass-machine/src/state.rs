//! The state of a thread: exactly the fold of its journal.
//!
//! [`State::apply`] never decides and never fails. The state contains what a decision or the next request may need;
//! older messages are only in the journal.

#![warn(clippy::wildcard_enum_match_arm)] // A new variant must break every match that has to consider it.

mod asked;
mod call;
mod run;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::asked::{Approval, Asked};
pub use self::call::{Call, CallStatus, Changed, Doubt, Line};
pub(crate) use self::run::{ENGINE, POLICY, RUN_TIMEOUT};
pub use self::run::{Phase, Run, Streak};
use crate::agent::Agent;
use crate::event::{
    Answer, CancelReason, Event, Fact, FileChange, InterruptKind, Place, Queued, Refused, RunAgent,
    RunStatus, StepMode, Totals,
};
use crate::id::{
    Attempt, CallKey, Digest, InputId, InterruptId, ModelName, Principal, RunId, Seq, ThreadId, Timestamp,
};
use crate::message::{BlobRef, Block, Content, Message, MicroUsd, Role};
use crate::mode::Mode;
use crate::policy::Failures;

/// Version of the fold. A snapshot of another version is ignored, not converted.
pub const FOLD: u32 = 16;

/// Maximum number of offloaded results that can be fetched. Older summaries are usually outside the window, and each
/// entry takes several hundred bytes in every snapshot.
const MAX_OFFLOADED: usize = 1_000;

/// A thread, folded from its journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Position of the last event.
    pub seq: Seq,
    /// Time of the last event.
    pub at: Timestamp,
    /// Milliseconds by which `at` was ahead of the wall clock when the last event was appended.
    pub ahead_ms: u64,
    /// Id of the thread; `None` before the first event.
    pub thread: Option<ThreadId>,
    /// Tenant that the thread belongs to.
    pub workspace: String,
    /// User who owns the thread.
    pub owner: Option<Principal>,
    /// The thread and position that this thread was forked from.
    pub forked_from: Option<ForkPoint>,
    /// Working folder of the thread's tools.
    pub folder: Option<String>,
    /// Current title.
    pub title: Option<String>,
    /// Person who set the title; `None` if no person did.
    pub named_by: Option<Principal>,
    /// Whether a model was asked for a title, even if it gave none.
    pub title_asked: bool,
    /// The messages of the conversation.
    pub history: History,
    /// Queued messages, in order.
    pub queue: VecDeque<Waiting>,
    /// The active run.
    pub run: Option<Run>,
    /// The last finished run.
    pub last: Option<Finished>,
    /// The agent of the last finished run. `None` during a run, because the run has its agent.
    pub agent: Option<KnownAgent>,
    /// Model that a person chose for the thread; it takes precedence over the agent's.
    pub model: Option<ModelName>,
    /// Mode of the last run with an explicit mode. The mode applies
    /// to the next run unless that run sets its own mode.
    pub mode: Option<Mode>,
    /// State of tools in the thread, by key.
    pub kept: BTreeMap<String, Content>,
    /// Offloaded results by reference, oldest first.
    pub offloaded: VecDeque<(String, BlobRef)>,
    /// Total size in bytes of the old file contents that the thread stores.
    pub file_bytes: u64,
    /// A budget that is too small for the next step, until an interrupt about it opens or the run ends.
    pub refused: Option<(String, u64, Refused)>,
}

/// Origin of a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The other thread, which may have been deleted.
    pub thread: ThreadId,
    /// Position of the last copied event in the other thread.
    pub until: Seq,
}

/// An agent, with the position of the event that contains it in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownAgent {
    /// Position of a `run.started`.
    pub at: Seq,
    /// The agent.
    pub agent: Arc<Agent>,
}

/// A queued message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The sender's id of the message.
    pub id: InputId,
    /// Time at which the message was queued.
    pub since: Timestamp,
    /// The message, with the run that it starts.
    pub queued: Queued,
}

/// The part of a finished run that the state keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Id of the run.
    pub run: RunId,
    /// Final status.
    pub status: RunStatus,
    /// Index of the run's first message in the history.
    pub from: u64,
    /// Dispatched calls that are not pure.
    pub effects: Vec<CallKey>,
    /// Earlier values of the tool states that the run has changed.
    pub kept_before: BTreeMap<String, Option<Content>>,
    /// [`Run::dropped`] of a run that is about to be rolled back; empty after any other.
    pub dropped: VecDeque<Arc<Message>>,
}

/// The part of the history that requests are built from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The first user message with its index: sent in every request.
    pub first: Option<(u64, Arc<Message>)>,
    /// Index of `messages[0]`, counted from 0 over the thread's life.
    pub start: u64,
    /// The messages from `start` on.
    pub messages: VecDeque<Arc<Message>>,
    /// Digest of all messages so far, each chained to the previous one. Withdrawn messages remain part of the digest.
    pub chain: Digest,
}

impl History {
    /// Returns the index after the last message.
    pub fn end(&self) -> u64 {
        self.start + self.messages.len() as u64
    }

    /// Returns the first user message if it is before the window.
    pub fn first_outside(&self) -> Option<&Arc<Message>> {
        self.first.as_ref().filter(|(index, _)| *index < self.start).map(|(_, message)| message)
    }

    fn push(&mut self, message: Arc<Message>) {
        self.chain = self.chain.chain(&*message);
        if self.first.is_none() && message.role == Role::User {
            self.first = Some((self.end(), message.clone()));
        }
        self.messages.push_back(message);
    }

    /// Moves the start of the window. Returns the messages that leave it.
    fn move_to(&mut self, start: u64) -> Vec<Arc<Message>> {
        // The newest message is never dropped, even if the journal is invalid.
        let most = self.messages.len().saturating_sub(1) as u64;
        let count = start.saturating_sub(self.start).min(most);
        self.start += count;
        self.messages.drain(..count as usize).collect()
    }

    /// Removes the messages from an index on, and restores earlier messages that had left the window.
    fn withdraw(&mut self, end: u64, dropped: VecDeque<Arc<Message>>) {
        self.messages.truncate(end.saturating_sub(self.start) as usize);
        self.first.take_if(|(index, _)| *index >= end);
        self.start = self.start.min(end).saturating_sub(dropped.len() as u64);
        dropped.into_iter().rev().for_each(|message| self.messages.push_front(message));
    }
}

impl State {
    /// Returns the wall-clock time of the last append.
    pub fn wall_at(&self) -> Timestamp {
        Timestamp(self.at.0.saturating_sub(self.ahead_ms))
    }

    /// Folds one event.
    pub fn apply(&mut self, event: &Event) {
        self.seq = self.seq.next();
        self.at = event.at;
        self.ahead_ms = event.wall.map_or(0, |wall| event.at.since(wall));
        match &event.fact {
            Fact::ThreadCreated { .. } => self.create(&event.fact),
            Fact::ThreadTitled { title, by, made } => {
                self.name(title, by);
                self.title_asked |= made.is_some();
            }
            Fact::MessageReceived { message, id: _, by: _ } => self.history.push(message.clone()),
            Fact::MessageQueued { .. }
            | Fact::MessageTaken { .. }
            | Fact::MessageWithdrawn { .. }
            | Fact::MessageEdited { .. }
            | Fact::MessagePromoted { .. } => self.queue_changed(event),
            Fact::RunStarted { .. } => self.start_run(event),
            Fact::RunFinished { status, .. } => self.finish_run(*status),
            Fact::RunWithdrawn { effects: _ } => self.withdraw_run(),
            Fact::WindowMoved { start } => self.move_window(*start),
            Fact::ModelSwitched { model, reason: _ } => self.switch_model(model),
            Fact::StepStarted { .. } => self.start_step(event),
            Fact::StepReplied { message, stop, usage, cost, ttft_ms, .. } => {
                self.with_run(|run| run.replied(message, stop, usage, *cost, *ttft_ms));
                self.keep_reply(message);
            }
            Fact::StepFailed { class, partial, retry_at, .. } => {
                self.with_run(|run| run.step_failed(*class, partial.as_ref(), *retry_at));
            }
            Fact::CallJudged { call, .. }
            | Fact::GrantUsed { call, .. }
            | Fact::CallEdited { call, .. }
            | Fact::CallPreviewing { call, .. }
            | Fact::CallPreviewed { call, .. }
            | Fact::ToolParked { call, .. }
            | Fact::ToolDeferred { call, .. }
            | Fact::ToolReconciling { call, .. }
            | Fact::ToolUnresolved { call, .. }
            | Fact::ToolInDoubt { call, .. } => self.with_run(|run| run.call_changed(*call, &event.fact)),
            Fact::ToolKept { name, value, call: _ } => self.keep(name, value),
            Fact::FileChanging { change, call: _ } => self.keep_file(change),
            Fact::ResultOffloaded { call, reference, payload, summary } => {
                self.offload(*call, reference, payload, summary);
            }
            Fact::InterruptOpened { interrupt, kind, call, terms } => {
                self.open_interrupt(*call, Asked::new(interrupt, kind, terms, event.at));
            }
            Fact::InterruptVoted { interrupt, .. }
            | Fact::InterruptReminded { interrupt }
            | Fact::InterruptEscalated { interrupt, .. } => {
                self.with_run(|run| run.asked_changed(interrupt, &event.fact));
            }
            Fact::InterruptClosed { interrupt, answer, by, roles } => {
                self.close_interrupt(interrupt, answer, (by.clone(), roles.clone()));
            }
            Fact::ToolStarted { call } => self.start_call(event.at, *call),
            Fact::ToolUndispatched { call } => self.with_run(|run| run.tool_undispatched(*call)),
            Fact::ToolFinished { call, content, error, .. } => self.finish_call(*call, content, *error),
            Fact::CancelRequested { by, reason } => {
                self.with_run(|run| run.cancel = Some((by.clone(), *reason)));
            }
            Fact::LimitReached { limit, figure, refused } => {
                self.reach_limit(limit, *figure, refused.as_ref());
            }
            Fact::ThreadForked { from, until, .. } => self.fork(from, *until),
            // Notes do not change the state.
            Fact::Note { .. } => {}
        }
        self.with_run(|run| run.count_waiting(event.at));
    }

    fn create(&mut self, fact: &Fact) {
        let Fact::ThreadCreated { thread, workspace, folder, owner } = fact else { return };
        (self.owner, self.thread) = (Some(owner.clone()), Some(thread.clone()));
        (self.workspace, self.folder) = (workspace.clone(), folder.clone());
    }

    fn fork(&mut self, from: &ThreadId, until: Seq) {
        self.forked_from = Some(ForkPoint { thread: from.clone(), until });
    }

    fn start_step(&mut self, event: &Event) {
        let Fact::StepStarted { attempt, model, mode, nudge } = &event.fact else { return };
        self.with_run(|run| run.step_started(event.at, *attempt, model, *mode));
        self.add_nudge(nudge.as_deref());
    }

    fn keep_reply(&mut self, message: &Arc<Message>) {
        if message.is_worth_keeping() {
            self.history.push(message.clone());
        }
    }

    fn name(&mut self, title: &str, by: &Principal) {
        self.title = Some(title.to_owned());
        self.named_by = Some(by.clone()).filter(|by| by.as_str() != ENGINE);
    }

    fn reach_limit(&mut self, limit: &str, figure: u64, refused: Option<&Refused>) {
        match refused {
            Some(refused) => self.refused = Some((limit.to_owned(), figure, refused.clone())),
            None => self.with_run(|run| run.is_overtime |= limit == RUN_TIMEOUT),
        }
    }

    fn move_window(&mut self, start: u64) {
        let from = self.history.start;
        let dropped = self.history.move_to(start);
        self.with_run(|run| {
            // If the run is rolled back, its own messages are withdrawn with it, so only earlier messages are kept.
            let before = run.first_message.saturating_sub(from) as usize;
            run.dropped.extend(dropped.into_iter().take(before));
        });
    }

    fn with_run(&mut self, change: impl FnOnce(&mut Run)) {
        if let Some(run) = &mut self.run {
            change(run);
        }
    }

    /// Folds a change of the queue.
    fn queue_changed(&mut self, event: &Event) {
        if let Fact::MessageQueued { id, queued } = &event.fact {
            let (id, queued) = (id.clone(), (**queued).clone());
            self.queue.push_back(Waiting { id, since: event.at, queued });
        } else if let Fact::MessageTaken { id } = &event.fact
            && let Some(waiting) = self.unqueue(id)
        {
            self.history.push(waiting.queued.message);
        } else if let Fact::MessageWithdrawn { id, by: _ } = &event.fact {
            self.unqueue(id);
        } else if let Fact::MessageEdited { id, message, by: _ } = &event.fact
            && let Some(waiting) = self.queue.iter_mut().find(|waiting| waiting.id == *id)
        {
            waiting.queued.message = message.clone();
        } else if let Fact::MessagePromoted { id, by: _ } = &event.fact
            && let Some(mut waiting) = self.unqueue(id)
        {
            waiting.queued.place = Place::AfterCancel;
            self.queue.push_front(waiting);
        }
    }

    fn unqueue(&mut self, id: &InputId) -> Option<Waiting> {
        let place = self.queue.iter().position(|waiting| waiting.id == *id)?;
        self.queue.remove(place)
    }

    /// Returns an agent as the next `run.started` records it.
    pub(crate) fn recorded(&self, agent: &Arc<Agent>) -> RunAgent {
        match self.newest_agent() {
            Some(known) if known.agent == *agent => RunAgent::Same { same_as: known.at },
            Some(_) | None => RunAgent::Full(agent.clone()),
        }
    }

    /// Returns the agent of the newest run.
    pub fn newest_agent(&self) -> Option<KnownAgent> {
        let active = self.run.as_ref().map(|run| KnownAgent { at: run.agent_at, agent: run.agent.clone() });
        active.or_else(|| self.agent.clone())
    }

    fn start_run(&mut self, event: &Event) {
        let Fact::RunStarted { agent, options, by } = &event.fact else { return };
        let known = match agent {
            RunAgent::Full(agent) => Some(KnownAgent { at: self.seq, agent: agent.clone() }),
            RunAgent::Same { .. } => self.newest_agent(),
        };
        let Some((id, KnownAgent { at: agent_at, agent })) = event.run.clone().zip(known) else { return };
        self.agent = None;
        let model = self.model.clone().or_else(|| agent.models.first().cloned());
        self.mode = options.mode.or(self.mode);
        self.run = Some(Run {
            id,
            agent,
            agent_at,
            options: options.clone(),
            by: by.clone(),
            started_at: event.at,
            waited_ms: 0,
            waiting_since: None,
            from: self.seq,
            first_message: self.history.end(),
            model: model.clone().unwrap_or_else(|| ModelName::from("")),
            step_model: model.unwrap_or_else(|| ModelName::from("")),
            attempt: Attempt::default(),
            step_at: event.at,
            mode: StepMode::Plain,
            phase: Phase::Ready,
            failures: Failures::default(),
            empties: 0,
            overruns: 0,
            answer: None,
            answer_continues: false,
            partial: None,
            stop: None,
            cancel: None,
            totals: Totals { cost: Some(MicroUsd(0)), ..Totals::default() },
            effects: Vec::new(),
            calls_of: BTreeMap::new(),
            is_overtime: false,
            raised: BTreeMap::new(),
            streak: Streak::default(),
            kept_before: BTreeMap::new(),
            dropped: VecDeque::new(),
        });
    }

    fn finish_run(&mut self, status: RunStatus) {
        self.refused = None;
        if let Some(run) = self.run.take() {
            let is_withdrawn = matches!(run.cancel, Some((_, CancelReason::RolledBack)));
            let Run { id, agent, agent_at: at, first_message: from, effects, kept_before, dropped, .. } = run;
            self.agent = Some(KnownAgent { at, agent });
            let dropped = if is_withdrawn { dropped } else { VecDeque::new() };
            self.last = Some(Finished { run: id, status, from, effects, kept_before, dropped });
        }
    }

    fn withdraw_run(&mut self) {
        let Some(last) = &mut self.last else { return };
        self.history.withdraw(last.from, std::mem::take(&mut last.dropped));
        for (name, before) in std::mem::take(&mut last.kept_before) {
            match before {
                Some(before) => self.kept.insert(name, before),
                None => self.kept.remove(&name),
            };
        }
    }

    fn offload(&mut self, call: CallKey, reference: &str, payload: &BlobRef, summary: &Content) {
        self.offloaded.retain(|(known, _)| known != reference);
        self.offloaded.push_back((reference.to_owned(), payload.clone()));
        if self.offloaded.len() > MAX_OFFLOADED {
            self.offloaded.pop_front();
        }
        self.with_run(|run| run.summarised(call, summary));
    }

    fn keep_file(&mut self, change: &FileChange) {
        self.file_bytes = self.file_bytes.saturating_add(change.kept_bytes());
    }

    fn keep(&mut self, name: &str, value: &Content) {
        let before = self.kept.insert(name.to_owned(), value.clone());
        self.with_run(|run| {
            run.kept_before.entry(name.to_owned()).or_insert(before);
        });
    }

    fn switch_model(&mut self, model: &ModelName) {
        match &mut self.run {
            Some(run) => {
                run.model = model.clone();
                run.failures = Failures::default();
            }
            None => self.model = Some(model.clone()),
        }
    }

    /// Adds a text from the engine to the history, so that the next prefix extends this one.
    fn add_nudge(&mut self, text: Option<&str>) {
        if let Some(text) = text {
            self.history.push(Arc::new(Message::text(Role::User, text)));
        }
    }

    fn start_call(&mut self, at: Timestamp, call: CallKey) {
        // The run continued without the refused budget; the budget may be sufficient at the next step.
        self.refused = None;
        self.with_run(|run| run.tool_started(at, call));
    }

    fn finish_call(&mut self, call: CallKey, content: &[Block], error: bool) {
        let results = self.run.as_mut().and_then(|run| run.tool_finished(call, content, error));
        if let Some(message) = results {
            self.history.push(Arc::new(message));
        }
    }

    fn open_interrupt(&mut self, call: Option<CallKey>, asked: Asked) {
        if call.is_none() {
            // The person who answers raises the budget, or the refusal is reported again.
            self.refused = None;
        }
        self.with_run(|run| run.asked(call, asked));
    }

    fn close_interrupt(&mut self, interrupt: &InterruptId, answer: &Answer, by: Approval) {
        let Some(run) = &mut self.run else { return };
        let Some((index, asked)) = run.asking(interrupt) else { return };
        if let InterruptKind::Limit(asked) = &asked.kind {
            let limit = asked.limit.clone();
            if let Answer::Raise { to } = answer {
                run.is_overtime &= limit != RUN_TIMEOUT;
                let figure = run.raised.entry(limit).or_default();
                *figure = (*figure).max(*to);
            }
            run.streak = Streak::default();
        }
        run.asked_closed(index, answer, by);
    }
}
