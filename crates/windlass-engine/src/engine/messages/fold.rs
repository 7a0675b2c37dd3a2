//! Converts events to messages in one pass over a part of a journal.
//! The fold keeps only the messages of the requested page.
//!
//! The caller selects the part of the journal.

use std::collections::VecDeque;

use windlass_machine::{
    Agent, Block, CallKey, Event, Fact, InputId, Message, Mode, ModelName, Output, Queued, Role, RunAgent,
    RunStatus, Seq, StopReason, ToolResult, Verdict,
};

use crate::engine::messages::Answered;
use crate::engine::messages::CallState;
use crate::engine::messages::MessageStatus;
use crate::engine::messages::StoredCall;
use crate::engine::messages::StoredMessage;
use crate::port::journal::Recorded;

/// The messages of the processed events.
pub(super) struct Fold {
    before: Option<Seq>,
    limit: usize,
    seq: Seq,
    messages: VecDeque<StoredMessage>,
    /// Queued messages, with the events that queued them.
    queue: Vec<StoredMessage>,
    /// Whether a run has just started: the previous run can no longer be rolled back, and all its calls are finished.
    begins: bool,
    model: Option<ModelName>,
    /// The first model of the newest run's agent.
    agents_model: Option<ModelName>,
    /// Model and mode that the run started with.
    chosen: (Option<ModelName>, Option<Mode>),
    /// Results of the last reply's calls, while some calls are open.
    results: Vec<Option<ToolResult>>,
}

impl Fold {
    /// Creates a fold. `earlier` is the agent that the first run refers to.
    pub(super) fn new(before: Option<Seq>, limit: usize, earlier: Option<&Agent>) -> Self {
        let (seq, messages, queue) = (Seq::default(), VecDeque::new(), Vec::new());
        let (begins, model, chosen, results) = (false, None, (None, None), Vec::new());
        let agents_model = earlier.and_then(first_model);
        Self { before, limit, seq, messages, queue, begins, model, agents_model, chosen, results }
    }

    /// Whether no later event can change the page.
    pub(super) fn is_settled(&self) -> bool {
        self.begins && self.queue.is_empty() && self.before.is_some_and(|before| self.seq >= before)
    }

    pub(super) fn into_messages(mut self) -> Vec<StoredMessage> {
        self.messages.extend(std::mem::take(&mut self.queue));
        self.messages.make_contiguous().sort_by_key(|message| message.seq);
        self.trim();
        self.messages.into()
    }

    /// Drops messages outside the page that can no longer change.
    fn trim(&mut self) {
        if let Some(before) = self.before {
            self.messages.retain(|message| message.seq < before);
        }
        let beyond = self.messages.len().saturating_sub(self.limit);
        self.messages.drain(..beyond);
    }

    pub(super) fn see(&mut self, recorded: &Recorded) {
        let Recorded { seq, event } = recorded;
        self.seq = *seq;
        self.begins = matches!(event.fact, Fact::RunStarted { .. });
        match &event.fact {
            Fact::RunStarted { agent, options, .. } => self.begin_run(agent, options.mode()),
            Fact::MessageReceived { id, message, by } => {
                let said = self.message(event, message, MessageStatus::Complete);
                let (model, mode) = self.chosen.clone();
                self.push(StoredMessage { id: Some(id.clone()), by: Some(by.clone()), model, mode, ..said });
            }
            Fact::MessageQueued { id, queued } => {
                let Queued { message, by, run, agent, options, .. } = &**queued;
                let said = self.message(event, message, MessageStatus::Queued);
                let (id, by, run) = (Some(id.clone()), Some(by.clone()), Some(run.clone()));
                let (model, mode) = (first_model(agent), options.mode);
                self.queue.push(StoredMessage { id, by, run, model, mode, ..said });
            }
            Fact::MessageEdited { id, message, .. } => {
                let waits = |waiting: &&mut StoredMessage| waiting.id.as_ref() == Some(id);
                if let Some(waiting) = self.queue.iter_mut().find(waits) {
                    waiting.blocks = shown(message);
                }
            }
            Fact::MessageTaken { id } => {
                if let Some(waiting) = self.unqueue(id) {
                    let (at, run, status) = (event.at, event.run.clone(), MessageStatus::Complete);
                    let (model, mode) = self.chosen.clone();
                    self.push(StoredMessage { seq: *seq, at, run, status, model, mode, ..waiting });
                }
            }
            Fact::MessageWithdrawn { id, .. } => drop(self.unqueue(id)),
            Fact::StepStarted { model, .. } => self.model = Some(model.clone()),
            Fact::StepReplied { .. } => self.replied(event),
            Fact::RunFinished { status, output, fallback, .. } => {
                self.finished(event, output, *fallback);
                if *status != RunStatus::Done {
                    self.remark(recorded);
                }
            }
            Fact::LimitReached { .. } | Fact::ModelSwitched { .. } => self.remark(recorded),
            Fact::RunWithdrawn { .. } => {
                for message in self.messages.iter_mut().filter(|message| message.run == event.run) {
                    message.status = MessageStatus::Withdrawn;
                }
            }
            Fact::ToolFinished { call, .. } => self.returned(event, *call),
            Fact::CallJudged { call, .. }
            | Fact::CallEdited { call, .. }
            | Fact::InterruptOpened { call: Some(call), .. }
            | Fact::CallPreviewed { call, .. }
            | Fact::ToolStarted { call, .. }
            | Fact::ToolUndispatched { call }
            | Fact::ToolDeferred { call, .. }
            | Fact::ToolInDoubt { call, .. } => self.call_changed(*call, &event.fact),
            Fact::InterruptClosed { interrupt, answer, by, .. } => {
                let answered = Answered::of(answer, by, event.at);
                let calls = self.messages.iter_mut().rev().flat_map(|message| &mut message.calls);
                for call in calls.filter(|call| call.interrupt.as_ref() == Some(interrupt)) {
                    (call.interrupt, call.state) = (None, CallState::Waiting);
                    call.answered = answered.clone().or(call.answered.take());
                }
            }
            _ => {} // tidy: the other kinds change no message
        }
    }

    fn begin_run(&mut self, agent: &RunAgent, mode: Mode) {
        if let RunAgent::Full(agent) = agent {
            self.agents_model = first_model(agent);
        }
        self.chosen = (self.agents_model.clone(), Some(mode));
        self.trim();
    }

    fn message(&self, event: &Event, message: &Message, status: MessageStatus) -> StoredMessage {
        StoredMessage {
            seq: self.seq,
            at: event.at,
            run: event.run.clone(),
            role: message.role,
            blocks: shown(message),
            id: None,
            by: None,
            model: None,
            mode: None,
            stop: None,
            usage: None,
            cost: None,
            ttft_ms: None,
            duration_ms: None,
            thoughts_ms: Vec::new(),
            status,
            calls: Vec::new(),
            after: Vec::new(),
        }
    }

    fn push(&mut self, message: StoredMessage) {
        if !message.blocks.is_empty() {
            self.messages.push_back(message);
        }
    }

    fn unqueue(&mut self, id: &InputId) -> Option<StoredMessage> {
        let place = self.queue.iter().position(|waiting| waiting.id.as_ref() == Some(id))?;
        Some(self.queue.remove(place))
    }

    fn replied(&mut self, event: &Event) {
        let Fact::StepReplied {
            attempt, message, stop, usage, cost, ttft_ms, duration_ms, thoughts_ms, ..
        } = &event.fact
        else {
            return;
        };
        if !message.is_worth_keeping() {
            return;
        }
        let partial = *stop == StopReason::Cancelled;
        let status = if partial { MessageStatus::Partial } else { MessageStatus::Complete };
        let calls: Vec<_> = (0..)
            .zip(message.calls())
            .map(|(index, call)| StoredCall {
                call: CallKey { step: attempt.step, index },
                id: call.id.clone(),
                tool: call.name.clone(),
                state: CallState::Waiting,
                arguments: None,
                rule: None,
                preview: None,
                answered: None,
                until: None,
                interrupt: None,
                outcome: None,
                error: false,
                duration_ms: 0,
            })
            .collect();
        self.results = vec![None; calls.len()];
        let said = self.message(event, message, status);
        self.push(StoredMessage {
            model: self.model.clone(),
            stop: Some(stop.clone()),
            usage: Some(*usage),
            cost: *cost,
            ttft_ms: *ttft_ms,
            duration_ms: Some(*duration_ms),
            thoughts_ms: thoughts_ms.clone(),
            calls,
            ..said
        });
    }

    /// Adds a run's final text beyond its replies: a failed attempt's partial text, or a text from the engine.
    fn finished(&mut self, event: &Event, output: &Output, fallback: bool) {
        if let Some(text) = &output.text {
            let status = if fallback { MessageStatus::Fallback } else { MessageStatus::Partial };
            let text = Block::Text { text: text.clone(), native: None };
            let said = Message { role: Role::Assistant, blocks: vec![text] };
            let model = self.model.clone().filter(|_| !fallback);
            let said = StoredMessage { model, ..self.message(event, &said, status) };
            self.push(said);
        }
    }

    /// Attaches an event that no message shows to the last message of its run.
    fn remark(&mut self, recorded: &Recorded) {
        let last = self.messages.iter_mut().rev().find(|message| message.run == recorded.event.run);
        if let Some(last) = last {
            last.after.push(recorded.clone());
        }
    }

    /// Returns a call of the last reply; results and doubts only concern such calls.
    fn call(&mut self, key: CallKey) -> Option<&mut StoredCall> {
        let calls = self.messages.iter_mut().rev().map(|message| &mut message.calls);
        calls.into_iter().find(|calls| !calls.is_empty())?.iter_mut().find(|call| call.call == key)
    }

    fn call_changed(&mut self, key: CallKey, fact: &Fact) {
        let Some(call) = self.call(key) else { return };
        match fact {
            Fact::CallJudged { arguments, verdict, rule, .. } => {
                (call.rule, call.until) = (Some(rule.clone()), None);
                if let Some(arguments) = arguments {
                    call.arguments = Some(arguments.clone());
                }
                if *verdict == Verdict::Allow {
                    call.state = CallState::Waiting;
                }
            }
            // The previous preview was of the previous arguments.
            Fact::CallEdited { arguments, .. } => {
                (call.arguments, call.preview) = (Some(arguments.clone()), None);
            }
            Fact::InterruptOpened { interrupt, .. } => {
                (call.interrupt, call.state, call.until) = (Some(interrupt.clone()), CallState::Asking, None);
            }
            Fact::CallPreviewed { preview, .. } => call.preview = Some(preview.clone()),
            Fact::ToolStarted { .. } => (call.state, call.until) = (CallState::Running, None),
            Fact::ToolUndispatched { .. } => call.state = CallState::Waiting,
            Fact::ToolDeferred { until, .. } => {
                (call.until, call.state) = (Some(*until), CallState::Sleeping);
            }
            Fact::ToolInDoubt { .. } => call.state = CallState::InDoubt,
            _ => {} // tidy: the caller names them all
        }
    }

    /// Adds a result. The last result of a step creates the message with all results.
    fn returned(&mut self, event: &Event, key: CallKey) {
        let Fact::ToolFinished { outcome, content, error, duration_ms, .. } = &event.fact else { return };
        let Some(call) = self.call(key) else { return };
        (call.state, call.interrupt, call.outcome) = (CallState::Done, None, Some(*outcome));
        call.until = None;
        (call.error, call.duration_ms) = (*error, *duration_ms);
        let result = ToolResult {
            call_id: call.id.clone(),
            name: call.tool.clone(),
            content: content.clone(),
            error: *error,
        };
        if let Some(seat) = self.results.get_mut(key.index as usize) {
            *seat = Some(result);
        }
        if !self.results.is_empty() && self.results.iter().all(Option::is_some) {
            let results = std::mem::take(&mut self.results).into_iter().flatten();
            let blocks = results.map(Block::ToolResult).collect();
            let said = self.message(event, &Message { role: Role::Tool, blocks }, MessageStatus::Complete);
            self.push(said);
        }
    }
}

fn first_model(agent: &Agent) -> Option<ModelName> {
    agent.models.first().cloned()
}

/// Returns the blocks of a message that clients see.
fn shown(message: &Message) -> Vec<Block> {
    let without_native = |block: &Block| match block {
        Block::Text { text, .. } => Some(Block::Text { text: text.clone(), native: None }),
        Block::Reasoning { text, .. } => Some(Block::Reasoning { text: text.clone(), native: None }),
        Block::ToolCall(call) => {
            let mut call = call.clone();
            call.native = None;
            Some(Block::ToolCall(call))
        }
        Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) => Some(block.clone()),
        Block::Opaque { .. } => None,
    };
    message.blocks.iter().filter_map(without_native).collect()
}
