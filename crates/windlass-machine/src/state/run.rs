//! The active run in the state: its step, its phase, and the line of its calls.
//!
//! It folds what was recorded and decides nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::{Agent, EffectClass};
use crate::event::{CancelReason, InterruptKind, RunOptions, StepMode, Totals, Verdict};
use crate::id::{
    Attempt, CallKey, EffectId, InterruptId, ModelName, Principal, RunId, Seq, Timestamp, ToolName,
};
use crate::message::{Block, Content, Message, MicroUsd, Role, StopReason, ToolResult, Usage};
use crate::policy::{FailureClass, Failures};

/// An active run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The agent that it is pinned to.
    pub agent: Arc<Agent>,
    /// How it behaves.
    pub options: RunOptions,
    /// When it began.
    pub started_at: Timestamp,
    /// Milliseconds that it has waited for people.
    pub waited_ms: u64,
    /// Since when it waits.
    pub waiting_since: Option<Timestamp>,
    /// Position of its first event.
    pub from: Seq,
    /// Index of its first message in the history.
    pub first_message: u64,
    /// The model of the next step.
    pub model: ModelName,
    /// The model of the step at hand.
    pub step_model: ModelName,
    /// The step and try at hand.
    pub attempt: Attempt,
    /// When the step began.
    pub step_at: Timestamp,
    /// What its request says beyond the history.
    pub mode: StepMode,
    /// What the run is doing.
    pub phase: Phase,
    /// Failures of the step so far.
    pub failures: Failures,
    /// Empty replies in a row. (WT-L9)
    pub empties: u32,
    /// Replies in a row that hit the output cap. (LM-L4)
    pub overruns: u32,
    /// The first of the replies in a row that hit the output cap: the answer at hand begins there.
    pub answer_from: Option<u32>,
    /// Text of a failed try, kept in case no better one comes. (SK-L9)
    pub partial: Option<Content>,
    /// Why the last reply stopped.
    pub stop: Option<StopReason>,
    /// Set once the run is to end.
    pub cancel: Option<(Principal, CancelReason)>,
    /// What it used.
    pub totals: Totals,
    /// Calls that were dispatched and are not pure.
    pub effects: Vec<EffectId>,
}

/// What a run is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Between two appends only: the next step has not been started.
    Ready,
    /// A model call is wanted.
    Calling,
    /// A failed model call is tried again at this time.
    Retrying(Timestamp),
    /// The reply's calls run.
    Calls(Line),
}

/// The calls of a step, in the reply's order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The calls.
    pub calls: Vec<Call>,
    /// Results so far, each at its call's place.
    pub results: Vec<Option<ToolResult>>,
    /// The newest version of the policy that they were judged by.
    pub view: u64,
}

/// A call of the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The provider's id of the call.
    pub id: String,
    /// The tool.
    pub tool: ToolName,
    /// The arguments that are sent.
    pub arguments: Content,
    /// Where it stands.
    pub status: CallStatus,
    /// What may be done again.
    pub class: EffectClass,
    /// How often it was started.
    pub starts: u32,
    /// How often an outside reply was asked for.
    pub asks: u32,
    /// Whether the arguments differ from what the model asked.
    pub repaired: bool,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// Not judged yet; only between two events of one batch.
    New,
    /// Waits for an outside reply.
    Asking(InterruptId, InterruptKind),
    /// May start once its place in the line comes. The flag says that a person approved it.
    Ready {
        /// Whether a person said so.
        approved: bool,
    },
    /// Dispatched.
    Started,
    /// Has its result.
    Done,
}

impl Line {
    /// How many calls wait for an outside reply.
    pub fn asking(&self) -> usize {
        self.calls.iter().filter(|call| matches!(call.status, CallStatus::Asking(..))).count()
    }

    /// Whether every call has its result.
    pub fn is_done(&self) -> bool {
        self.calls.iter().all(|call| call.status == CallStatus::Done)
    }
}

impl Run {
    /// Whether the run is parked on an outside reply: something asks, and nothing runs.
    pub fn is_waiting(&self) -> bool {
        let Phase::Calls(line) = &self.phase else { return false };
        let asks = line.calls.iter().any(|call| matches!(call.status, CallStatus::Asking(..)));
        asks && !line.calls.iter().any(|call| call.status == CallStatus::Started)
    }

    /// Whether a model call or a tool call may be in flight.
    pub fn is_busy(&self) -> bool {
        match &self.phase {
            Phase::Ready | Phase::Retrying(_) => false,
            Phase::Calling => true,
            Phase::Calls(line) => line.calls.iter().any(|call| call.status == CallStatus::Started),
        }
    }

    /// When the run's time is up; `None` while it waits for people.
    pub fn deadline(&self) -> Option<Timestamp> {
        if self.waiting_since.is_some() || self.agent.limits.run_timeout_ms == 0 {
            return None;
        }
        Some(self.started_at.plus_ms(self.agent.limits.run_timeout_ms).plus_ms(self.waited_ms))
    }

    /// The call that an interrupt is about.
    pub fn asking(&self, interrupt: &InterruptId) -> Option<(usize, &InterruptKind)> {
        let Phase::Calls(line) = &self.phase else { return None };
        line.calls.iter().enumerate().find_map(|(index, call)| match &call.status {
            CallStatus::Asking(id, kind) if id == interrupt => Some((index, kind)),
            CallStatus::Asking(..)
            | CallStatus::New
            | CallStatus::Ready { .. }
            | CallStatus::Started
            | CallStatus::Done => None,
        })
    }

    pub(super) fn step_started(
        &mut self,
        at: Timestamp,
        attempt: Attempt,
        model: &ModelName,
        mode: StepMode,
    ) {
        if attempt.step != self.attempt.step {
            self.failures = Failures::default();
            self.totals.steps += 1;
        }
        self.attempt = attempt;
        self.step_model = model.clone();
        self.mode = mode;
        self.step_at = at;
        self.phase = Phase::Calling;
    }

    pub(super) fn replied(
        &mut self,
        message: &Message,
        stop: &StopReason,
        usage: &Usage,
        cost: Option<MicroUsd>,
    ) {
        self.totals.add_reply(stop, usage, cost);
        self.stop = Some(stop.clone());
        self.partial = None;
        let calls: Vec<Call> = message.calls().map(Call::new).collect();
        let overrun = *stop == StopReason::MaxTokens && calls.is_empty();
        if overrun {
            self.overruns += 1;
            if message.texts().any(|text| text.size_bytes() > 0) {
                self.answer_from = self.answer_from.or(Some(self.attempt.step));
            }
        } else {
            self.overruns = 0;
            // A paused reply goes on, and so does the answer that it belongs to.
            self.answer_from.take_if(|_| *stop != StopReason::Pause || !calls.is_empty());
        }
        if !calls.is_empty() {
            self.empties = 0;
        } else if !overrun && !message.has_answer() {
            self.empties += 1;
        }
        self.phase = if calls.is_empty() {
            Phase::Ready
        } else {
            Phase::Calls(Line { results: vec![None; calls.len()], calls, view: 0 })
        };
    }

    pub(super) fn step_failed(
        &mut self,
        class: FailureClass,
        partial: Option<&Content>,
        retry_at: Option<Timestamp>,
    ) {
        self.failures.count(class);
        if let Some(partial) = partial {
            self.partial = Some(partial.clone());
        }
        self.phase = retry_at.map_or(Phase::Ready, Phase::Retrying);
    }

    pub(super) fn judged(
        &mut self,
        key: CallKey,
        verdict: Verdict,
        class: EffectClass,
        arguments: Option<&Content>,
        view: u64,
    ) {
        let Phase::Calls(line) = &mut self.phase else { return };
        line.view = line.view.max(view);
        let Some(call) = line.calls.get_mut(key.index as usize) else { return };
        call.class = class;
        if let Some(arguments) = arguments {
            call.arguments = arguments.clone();
            call.repaired = true;
        }
        match verdict {
            Verdict::Allow => call.status = CallStatus::Ready { approved: false },
            // An interrupt or a result follows in the same batch and says the rest.
            Verdict::Ask | Verdict::Deny => {}
        }
    }

    /// Sets a call's status, where the call exists.
    pub(super) fn set_status(&mut self, key: CallKey, status: CallStatus) {
        if let Some(call) = self.call_mut(key) {
            call.status = status;
        }
    }

    pub(super) fn asked(&mut self, key: CallKey, interrupt: &InterruptId, kind: &InterruptKind) {
        let Some(call) = self.call_mut(key) else { return };
        call.status = CallStatus::Asking(interrupt.clone(), kind.clone());
        call.asks += 1;
    }

    pub(super) fn tool_started(&mut self, key: CallKey, effect: &EffectId) {
        let Some(call) = self.call_mut(key) else { return };
        call.status = CallStatus::Started;
        call.starts += 1;
        let (first, class) = (call.starts == 1, call.class);
        if first {
            self.totals.calls += 1;
        }
        if class != EffectClass::Pure && first {
            self.effects.push(effect.clone());
        }
    }

    /// Keeps a result; returns the message of all results once the last one is there.
    pub(super) fn tool_finished(&mut self, key: CallKey, content: &[Block], error: bool) -> Option<Message> {
        let Phase::Calls(line) = &mut self.phase else { return None };
        let index = key.index as usize;
        let call = line.calls.get_mut(index)?;
        call.status = CallStatus::Done;
        let result = ToolResult {
            call_id: call.id.clone(),
            name: call.tool.clone(),
            content: content.to_vec(),
            error,
        };
        *line.results.get_mut(index)? = Some(result);
        if !line.is_done() {
            return None;
        }
        let blocks = line.results.iter_mut().filter_map(Option::take).map(Block::ToolResult).collect();
        self.phase = Phase::Ready;
        Some(Message { role: Role::Tool, blocks })
    }

    fn call_mut(&mut self, key: CallKey) -> Option<&mut Call> {
        match &mut self.phase {
            Phase::Calls(line) => line.calls.get_mut(key.index as usize),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) => None,
        }
    }

    pub(super) fn count_waiting(&mut self, now: Timestamp) {
        match (self.waiting_since, self.is_waiting()) {
            (None, true) => self.waiting_since = Some(now),
            (Some(since), false) => {
                self.waited_ms += now.since(since);
                self.waiting_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }
}

impl Call {
    fn new(call: &crate::message::ToolCall) -> Self {
        Self {
            id: call.id.clone(),
            tool: call.name.clone(),
            arguments: call.asked.clone(),
            status: CallStatus::New,
            class: EffectClass::Once,
            starts: 0,
            asks: 0,
            repaired: false,
        }
    }
}
