//! The active run in the state: its step, its phase, and the calls of the current step with their results.
//!
//! This module folds recorded facts and makes no decisions.

mod asked;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::asked::Asked;
use super::call::{Call, CallStatus, Changed, Doubt, Line};
use crate::agent::{Agent, EffectClass};
use crate::event::{CancelReason, Fact, Output, Rest, RunOptions, StepMode, Totals};
use crate::id::{
    Attempt, CallKey, Digest, InterruptId, ModelName, Principal, RunId, Seq, Timestamp, ToolName,
};
use crate::message::{Block, Content, Message, MicroUsd, Role, StopReason, ToolResult, Usage};
use crate::policy::{FailureClass, Failures};

/// An active run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Id of the run.
    pub id: RunId,
    /// The agent that the run is pinned to.
    pub agent: Arc<Agent>,
    /// Position of the `run.started` that has the agent in full.
    pub agent_at: Seq,
    /// Options of the run.
    pub options: RunOptions,
    /// The user that the run works for.
    pub by: Principal,
    /// Start time.
    pub started_at: Timestamp,
    /// Milliseconds that the run has waited for people or slept.
    pub waited_ms: u64,
    /// Start of the current wait; `None` if the run does not wait.
    pub waiting_since: Option<Timestamp>,
    /// Position of the run's first event.
    pub from: Seq,
    /// Index of the run's first message in the history.
    pub first_message: u64,
    /// Model of the next step.
    pub model: ModelName,
    /// Model of the current step.
    pub step_model: ModelName,
    /// Current step and attempt.
    pub attempt: Attempt,
    /// Start time of the step.
    pub step_at: Timestamp,
    /// The reason why the step runs, which may add texts to its request.
    pub mode: StepMode,
    /// Current activity.
    pub phase: Phase,
    /// Failures of the current step.
    pub failures: Failures,
    /// Number of consecutive empty replies. (WT-L9)
    pub empties: u32,
    /// Number of consecutive replies that hit the output maximum. (LM-L4)
    pub overruns: u32,
    /// First and last step whose replies form the current answer.
    pub answer: Option<(u32, u32)>,
    /// Whether the next reply continues that answer: the last reply
    /// hit the output maximum, or paused after such a reply.
    pub answer_continues: bool,
    /// Text of a failed attempt, used if no later attempt gives a text. (SK-L9)
    pub partial: Option<Content>,
    /// The reason why the last reply stopped.
    pub stop: Option<StopReason>,
    /// The requester and the reason of the cancellation; `None` unless the run is being cancelled.
    pub cancel: Option<(Principal, CancelReason)>,
    /// Usage so far.
    pub totals: Totals,
    /// Dispatched calls that are not pure.
    pub effects: Vec<CallKey>,
    /// Number of dispatched calls by tool, for tools with a limit on calls.
    pub calls_of: BTreeMap<ToolName, u32>,
    /// Whether the time limit was reached, so that the run asks a person before the next step.
    pub is_overtime: bool,
    /// Limits that people have raised.
    pub raised: BTreeMap<String, u64>,
    /// Consecutive steps with the same calls and the same results.
    pub streak: Streak,
    /// Earlier values of the tool states that the run has changed.
    pub kept_before: BTreeMap<String, Option<Content>>,
    /// Earlier messages that have left the window since the run started. They are sent again if the run is rolled
    /// back.
    pub dropped: VecDeque<Arc<Message>>,
}

/// Consecutive steps with the same calls and the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streak {
    /// Digest of the newest step's tools, arguments and results.
    pub digest: Digest,
    /// Number of steps.
    pub times: u32,
}

/// Principal of the engine's own actions.
pub(crate) const ENGINE: &str = "engine";

/// Principal of the policy's automatic answers.
pub(crate) const POLICY: &str = "policy";

/// Name of the limit on a run's time.
pub(crate) const RUN_TIMEOUT: &str = "run_timeout_ms";

/// Current activity of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Exists only between two events of a batch: the next step has not started.
    Ready,
    /// A model call is wanted.
    Calling,
    /// A failed model call is retried at this time.
    Retrying(Timestamp),
    /// The reply's calls are in progress.
    Calls(Line),
    /// The run as a whole waits for an outside answer.
    Parked(Box<Asked>),
}

impl Run {
    /// Whether the run waits for an outside answer, and no command is in flight.
    pub fn is_waiting(&self) -> bool {
        match &self.phase {
            Phase::Parked(_) => true,
            Phase::Calls(line) => line.asking() > 0 && !line.has_calls_in_flight(),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) => false,
        }
    }

    /// Whether the run waits only until deferred calls are due: no interrupt is open, and no call is in flight.
    pub fn is_sleeping(&self) -> bool {
        match &self.phase {
            Phase::Calls(line) => line.deferred() > 0 && line.asking() == 0 && !line.has_calls_in_flight(),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => false,
        }
    }

    /// Whether a model call or a tool call may be in flight.
    pub fn is_busy(&self) -> bool {
        match &self.phase {
            Phase::Ready | Phase::Retrying(_) | Phase::Parked(_) => false,
            Phase::Calling => true,
            Phase::Calls(line) => line.calls.iter().any(|call| call.status == CallStatus::Started),
        }
    }

    /// Returns the value of a limit, including raises by people.
    pub fn figure(&self, limit: &str, usual: u64) -> u64 {
        self.raised.get(limit).map_or(usual, |raised| usual.max(*raised))
    }

    /// Returns the open interrupts, with the indexes of their calls.
    pub fn open(&self) -> impl Iterator<Item = (Option<usize>, &Asked)> {
        let (parked, line) = match &self.phase {
            Phase::Parked(asked) => (Some(&**asked), None),
            Phase::Calls(line) => (None, Some(line)),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) => (None, None),
        };
        let calls = line.into_iter().flat_map(|line| line.calls.iter().enumerate());
        let asking = calls.filter_map(|(index, call)| Some((Some(index), call.status.asked()?)));
        parked.map(|asked| (None, asked)).into_iter().chain(asking)
    }

    /// Returns the next deadline of an interrupt, a reconciliation read or a deferred call, for tools that `is_here`
    /// accepts.
    pub fn next_look(&self, is_here: impl Fn(&ToolName) -> bool) -> Option<Timestamp> {
        let asked = self.open().filter_map(|(_, asked)| asked.deadline());
        let line = match &self.phase {
            Phase::Calls(line) => line.calls.as_slice(),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => &[],
        };
        let timers = line.iter().filter(|call| is_here(&call.tool)).filter_map(|call| match call.status {
            CallStatus::Unresolved { retry_at: at, .. } | CallStatus::Deferred { until: at } => Some(at),
            CallStatus::New
            | CallStatus::Previewing { .. }
            | CallStatus::Asking(_)
            | CallStatus::Ready
            | CallStatus::Started
            | CallStatus::Reconciling { .. }
            | CallStatus::Done => None,
        });
        asked.chain(timers).min()
    }

    /// Returns when the time limit is reached; `None` while the
    /// run waits or sleeps, and after the limit was recorded.
    pub fn deadline(&self) -> Option<Timestamp> {
        if self.waiting_since.is_some() || self.agent.limits.run_timeout_ms == 0 || self.is_overtime {
            return None;
        }
        Some(self.started_at.plus_ms(self.timeout_ms()).plus_ms(self.waited_ms))
    }

    /// Returns the time limit, including raises by people.
    pub fn timeout_ms(&self) -> u64 {
        self.figure(RUN_TIMEOUT, self.agent.limits.run_timeout_ms)
    }

    /// Returns an open interrupt, with the index of its call.
    pub fn asking(&self, interrupt: &InterruptId) -> Option<(Option<usize>, &Asked)> {
        self.open().find(|(_, asked)| asked.interrupt == *interrupt)
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
            self.answer.take_if(|_| !self.answer_continues);
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
        ttft_ms: Option<u64>,
    ) {
        self.totals.add_reply(stop, usage, cost, ttft_ms);
        self.stop = Some(stop.clone());
        self.partial = None;
        let calls: Vec<Call> = message.calls().map(Call::new).collect();
        let overrun = *stop == StopReason::MaxTokens && calls.is_empty();
        self.overruns = if overrun { self.overruns + 1 } else { 0 };
        self.keep_answer(message, overrun, *stop == StopReason::Pause);
        if !calls.is_empty() {
            self.empties = 0;
        } else if !overrun && !message.has_answer() {
            self.empties += 1;
        }
        self.phase = if calls.is_empty() {
            Phase::Ready
        } else {
            Phase::Calls(Line { results: vec![None; calls.len()], calls, ..Line::default() })
        };
    }

    /// Tracks which replies form the answer. Text beside executed calls is no answer.
    fn keep_answer(&mut self, message: &Message, overrun: bool, paused: bool) {
        let step = self.attempt.step;
        let continued = self.answer.filter(|_| self.answer_continues);
        let asks = message.calls().next().is_some();
        let is_answer = !asks || self.cancel.is_some() || self.mode == StepMode::Fallback;
        let has_text = message.texts().any(|text| text.size_bytes() > 0);
        self.answer = match continued {
            _ if !is_answer => None,
            Some((first, _)) if has_text => Some((first, step)),
            None if has_text => Some((step, step)),
            Some(_) | None => continued,
        };
        // A paused reply continues, so the answer that it belongs to continues as well.
        self.answer_continues = overrun || paused && !asks && continued.is_some();
    }

    /// Returns the model's current answer: its replies, or else the text of a failed attempt.
    pub(crate) fn said(&self) -> Output {
        Output { replies: self.answer, text: self.partial.clone().filter(|text| text.size_bytes() > 0) }
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

    /// Folds a change of a call, except interrupts, start and end.
    pub(super) fn call_changed(&mut self, key: CallKey, fact: &Fact) {
        let Some(call) = self.call_mut(key) else { return };
        if let Fact::CallJudged { .. } = fact {
            call.judged(fact);
        } else if let Fact::GrantUsed { grant, .. } = fact {
            call.grant = Some(grant.clone());
        } else if let Fact::CallEdited { arguments, approval, .. } = fact {
            (call.arguments, call.changed) = (arguments.clone(), Some(Changed::Edited));
            (call.approval, call.approved, call.preview) = (*approval, false, None);
        } else if let Fact::CallPreviewing { recheck, terms, .. } = fact {
            (call.terms, call.status) = (terms.clone(), CallStatus::Previewing { recheck: *recheck });
            call.approved &= *recheck;
            call.looks += 1;
        } else if let Fact::CallPreviewed { digest, .. } = fact {
            call.preview = Some(*digest);
        } else if let Fact::ToolParked { state, .. } = fact {
            // An interrupt follows in the same batch.
            (call.parked, call.reply, call.resumes) = (state.clone(), None, false);
            call.rest = Rest::default();
        } else if let Fact::ToolDeferred { until, state, rest, .. } = fact {
            call.deferred(*until, state, *rest);
        } else if let Fact::ToolReconciling { attempt, until, .. } = fact {
            call.status = CallStatus::Reconciling { attempt: *attempt, until: *until };
        } else if let Fact::ToolUnresolved { retry_at, .. } = fact
            && let CallStatus::Reconciling { attempt: attempts, until } = call.status
        {
            call.status = CallStatus::Unresolved { attempts, until, retry_at: *retry_at };
        } else if let Fact::ToolInDoubt { effect, reason, .. } = fact {
            // An interrupt or a result follows in the same batch.
            call.doubt = Some(Doubt { effect: effect.clone(), reason: reason.clone() });
        }
    }

    pub(super) fn tool_started(&mut self, at: Timestamp, key: CallKey) {
        let Some(call) = self.call_mut(key) else { return };
        call.status = CallStatus::Started;
        (call.started_at, call.doubt) = (Some(at), None);
        (call.starts, call.tries) = (call.starts + 1, call.tries + 1);
        let (first, class, tool) = (call.starts == 1, call.class, call.tool.clone());
        let by_people = call.is_approved_by_people();
        if first {
            self.totals.calls += 1;
            self.totals.approved += u32::from(by_people);
            if self.agent.limits.max_calls.contains_key(&tool) {
                *self.calls_of.entry(tool).or_default() += 1;
            }
        }
        if class != EffectClass::Pure && first {
            self.effects.push(key);
        }
    }

    /// Reverts a start that was not dispatched.
    pub(super) fn tool_undispatched(&mut self, key: CallKey) {
        let Some(call) = self.call_mut(key).filter(|call| call.status == CallStatus::Started) else { return };
        call.undispatched();
        if call.starts > 0 {
            return;
        }
        let (class, tool, by_people) = (call.class, call.tool.clone(), call.is_approved_by_people());
        self.totals.calls = self.totals.calls.saturating_sub(1);
        self.totals.approved = self.totals.approved.saturating_sub(u32::from(by_people));
        if let Some(count) = self.calls_of.get_mut(&tool) {
            *count = count.saturating_sub(1);
        }
        if class != EffectClass::Pure {
            // A call that is not pure starts alone, so the newest effect is the effect of this call.
            self.effects.pop();
        }
    }

    /// Stores a result. Returns the message with all results after the last result was stored.
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
        let results = line.calls.iter().zip(line.results.iter().flatten());
        self.streak.count(results.map(|(call, result)| (&call.tool, &call.arguments, &*result.content)));
        let mut results: Vec<ToolResult> = line.results.iter_mut().filter_map(Option::take).collect();
        for (index, summary) in std::mem::take(&mut line.summaries) {
            // `streak.count` has already compared the full results, so a summary may replace the text now.
            if let Some(first) = results.get_mut(index as usize).and_then(|result| result.content.first_mut())
            {
                *first = Block::Text { text: summary, native: None };
            }
        }
        let blocks = results.into_iter().map(Block::ToolResult).collect();
        self.phase = Phase::Ready;
        Some(Message { role: Role::Tool, blocks })
    }

    /// Stores the summary that replaces a following result for the model.
    pub(super) fn summarised(&mut self, key: CallKey, summary: &Content) {
        if let Phase::Calls(line) = &mut self.phase {
            line.summaries.insert(key.index, summary.clone());
        }
    }

    fn call_mut(&mut self, key: CallKey) -> Option<&mut Call> {
        match &mut self.phase {
            Phase::Calls(line) => line.calls.get_mut(key.index as usize),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => None,
        }
    }

    pub(super) fn count_waiting(&mut self, now: Timestamp) {
        match (self.waiting_since, self.is_waiting() || self.is_sleeping()) {
            (None, true) => self.waiting_since = Some(now),
            (Some(since), false) => {
                self.waited_ms += now.since(since);
                self.waiting_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }
}

impl Streak {
    /// Counts a step's calls with their results, in order.
    pub(crate) fn count<'a>(
        &mut self,
        calls: impl Iterator<Item = (&'a ToolName, &'a Content, &'a [Block])>,
    ) {
        let digest = calls.fold(Digest::default(), |digest, (tool, arguments, result)| {
            // A different member order or whitespace does not make another call.
            let value = arguments.inline().and_then(|text| serde_json::from_str::<Value>(text).ok());
            match value {
                Some(mut value) => {
                    value.sort_all_objects();
                    digest.chain(&(tool, value, result))
                }
                None => digest.chain(&(tool, arguments, result)),
            }
        });
        let times = if digest == self.digest { self.times + 1 } else { 1 };
        *self = Self { digest, times };
    }
}
