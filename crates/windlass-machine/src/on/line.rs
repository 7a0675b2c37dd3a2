//! The calls of a step form a line: who may start, who has a result, and when the step is over.
//!
//! A call starts when every earlier one has its result, except that neighbouring pure calls run
//! beside each other. Results stand in the line's order whatever order they came in.

use std::borrow::Cow;

use super::Decision;
use super::next::next_step;
use crate::agent::EffectClass;
use crate::event::{Fact, InterruptKind, Outcome, StepMode, Totals, Verdict};
use crate::id::{CallKey, Digest, InterruptId, ToolName};
use crate::input::{Arguments, CallView, View};
use crate::message::{Block, Content, Message};
use crate::policy::judge;
use crate::state::{CallStatus, Line, Phase, Run};

/// Where a call stands after the facts of this decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    New,
    Asking,
    Ready { approved: bool },
    Started,
    Done,
}

/// One call as this decision sees it.
pub(super) struct Seat<'a> {
    pub tool: &'a ToolName,
    pub arguments: Cow<'a, Content>,
    pub class: EffectClass,
    pub starts: u32,
    pub asks: u32,
    pub place: Place,
}

/// The line after the facts of this decision: a few words per call of one step, whatever the thread's length.
pub(super) struct Overlay<'a> {
    pub run: &'a Run,
    pub step: u32,
    pub seats: Vec<Seat<'a>>,
}

impl<'a> Overlay<'a> {
    /// The line of a reply that was just recorded.
    pub(super) fn new(run: &'a Run, message: &'a Message) -> Self {
        let seats = message.calls().map(|call| Seat {
            tool: &call.name,
            arguments: Cow::Borrowed(&call.asked),
            class: EffectClass::Once,
            starts: 0,
            asks: 0,
            place: Place::New,
        });
        Self { run, step: run.attempt.step, seats: seats.collect() }
    }

    /// The line as the state has it.
    pub(super) fn of(run: &'a Run, line: &'a Line) -> Self {
        let seats = line.calls.iter().map(|call| Seat {
            tool: &call.tool,
            arguments: Cow::Borrowed(&call.arguments),
            class: call.class,
            starts: call.starts,
            asks: call.asks,
            place: match call.status {
                CallStatus::New => Place::New,
                CallStatus::Asking(..) => Place::Asking,
                CallStatus::Ready { approved } => Place::Ready { approved },
                CallStatus::Started => Place::Started,
                CallStatus::Done => Place::Done,
            },
        });
        Self { run, step: run.attempt.step, seats: seats.collect() }
    }

    pub(super) fn key(&self, index: usize) -> CallKey {
        CallKey { step: self.step, index: index as u32 }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.seats.iter().any(|seat| seat.place == Place::Started)
    }

    /// Records a result that no tool gave.
    pub(super) fn close(&mut self, d: &mut Decision<'_>, index: usize, outcome: Outcome, text: String) {
        self.seats[index].place = Place::Done;
        d.record(Fact::ToolFinished {
            call: self.key(index),
            outcome,
            content: vec![Block::text(text)],
            error: outcome != Outcome::Told,
            duration_ms: 0,
        });
    }

    /// Judges every call of a new reply.
    pub(super) fn judge(&mut self, d: &mut Decision<'_>, view: &View) {
        let limit = self.run.agent.limits.max_calls_per_step as usize;
        let all = self.seats.len();
        if all > limit {
            d.record(Fact::LimitReached { limit: "max_calls_per_step".into(), figure: limit as u64 });
        }
        for index in 0..all {
            if index >= limit {
                let text = format!(
                    "Not run: the step asked for {all} calls, and at most {limit} are run in one step."
                );
                self.close(d, index, Outcome::Refused, text);
                continue;
            }
            if self.run.mode == StepMode::Fallback {
                let text = "Not run: no steps are left, and the answer was asked for without tools.";
                self.close(d, index, Outcome::Refused, text.into());
                continue;
            }
            match view.calls.get(index).unwrap_or(&CallView::Unknown) {
                CallView::Unknown => {
                    let error =
                        serde_json::json!({ "error": format!("Unknown tool: {}", self.seats[index].tool) });
                    self.close(d, index, Outcome::Refused, error.to_string());
                }
                CallView::Known { class, annotations, arguments } => {
                    let (sent, digest) = match arguments {
                        Arguments::AsAsked { digest } => (None, *digest),
                        Arguments::Repaired { arguments, digest } => (Some(arguments), *digest),
                        Arguments::Invalid { reason } => {
                            let error =
                                serde_json::json!({ "error": format!("Invalid arguments: {reason}") });
                            self.close(d, index, Outcome::Refused, error.to_string());
                            continue;
                        }
                    };
                    let (verdict, rule) = judge(view.auto_run, *annotations);
                    self.judged(d, index, (verdict, rule), *class, sent, view.version);
                    if verdict == Verdict::Ask {
                        self.ask(d, index, digest);
                    }
                }
            }
        }
    }

    fn judged(
        &mut self,
        d: &mut Decision<'_>,
        index: usize,
        (verdict, rule): (Verdict, &str),
        class: EffectClass,
        arguments: Option<&Content>,
        view: u64,
    ) {
        let call = self.key(index);
        let seat = &mut self.seats[index];
        seat.class = class;
        if let Some(arguments) = arguments {
            seat.arguments = Cow::Owned(arguments.clone());
        }
        d.record(Fact::CallJudged {
            call,
            verdict,
            rule: rule.into(),
            class,
            arguments: arguments.cloned(),
            view,
        });
        match verdict {
            Verdict::Allow => self.seats[index].place = Place::Ready { approved: false },
            Verdict::Ask => {}
            Verdict::Deny => {
                let text =
                    format!("Tool call was denied by policy (`{rule}`). Do not retry it; find another way.");
                self.close(d, index, Outcome::Denied, text);
            }
        }
    }

    fn ask(&mut self, d: &mut Decision<'_>, index: usize, arguments: Digest) {
        let kind = InterruptKind::Approval { tool: self.seats[index].tool.clone(), arguments };
        self.open(d, index, kind);
    }

    /// Asks for a call that was allowed before.
    pub(super) fn ask_again(&mut self, d: &mut Decision<'_>, index: usize) {
        let digest = digest_of(&self.seats[index].arguments);
        self.ask(d, index, digest);
    }

    /// Opens an interrupt about a call.
    pub(super) fn open(&mut self, d: &mut Decision<'_>, index: usize, kind: InterruptKind) {
        let call = self.key(index);
        let seat = &mut self.seats[index];
        seat.place = Place::Asking;
        let interrupt =
            InterruptId::from(format!("{}.{}.{}.{}", self.run.id, call.step, call.index, seat.asks));
        d.record(Fact::InterruptOpened { interrupt, kind, call });
    }

    /// Says that a dispatched call's outcome is unknown, and asks.
    pub(super) fn doubt(&mut self, d: &mut Decision<'_>, index: usize, reason: String) {
        let call = self.key(index);
        d.record(Fact::ToolInDoubt { call, effect: d.effect(self.run, call), reason });
        let tool = self.seats[index].tool.clone();
        self.open(d, index, InterruptKind::InDoubt { tool });
    }

    /// Records the start of a call.
    pub(super) fn start(&mut self, d: &mut Decision<'_>, index: usize) {
        let call = self.key(index);
        let seat = &mut self.seats[index];
        seat.place = Place::Started;
        seat.starts += 1;
        let arguments = digest_of(&seat.arguments);
        d.record(Fact::ToolStarted { call, effect: d.effect(self.run, call), arguments });
    }

    /// Starts whatever may start; where every call has its result, goes on to the next step.
    pub(super) fn go_on(&mut self, d: &mut Decision<'_>, totals: &Totals) {
        if self.seats.iter().all(|seat| seat.place == Place::Done) {
            return next_step(d, self.run, StepMode::Plain, totals);
        }
        for index in self.startable() {
            self.start(d, index);
        }
    }

    /// The calls whose place in the line has come.
    fn startable(&self) -> Vec<usize> {
        let serialized = self.run.options.serialized;
        let parallel = if serialized { 1 } else { self.run.agent.limits.max_parallel_calls.max(1) as usize };
        let mut running = 0;
        let mut found = Vec::new();
        for (index, seat) in self.seats.iter().enumerate() {
            let ready = match seat.place {
                Place::Done => continue,
                Place::New | Place::Asking => break,
                Place::Started => false,
                Place::Ready { .. } => true,
            };
            let pure = seat.class == EffectClass::Pure;
            // A call that is not pure starts alone, at the head of what is left.
            if running > 0 && !pure || running >= parallel {
                break;
            }
            if ready {
                found.push(index);
            }
            running += 1;
            if !pure {
                break;
            }
        }
        found
    }
}

fn digest_of(arguments: &Content) -> Digest {
    match arguments {
        Content::Inline(text) => Digest::of(text.as_bytes()),
        Content::Blob(blob) => blob.digest,
    }
}

/// The line of a run, where it has one.
pub(super) fn overlay(run: &Run) -> Option<Overlay<'_>> {
    match &run.phase {
        Phase::Calls(line) => Some(Overlay::of(run, line)),
        Phase::Ready | Phase::Calling | Phase::Retrying(_) => None,
    }
}
