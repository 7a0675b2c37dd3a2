//! The calls of a step form a line: who may start, who has a result, and when the step is over.
//!
//! A call starts when every earlier one has its result, except that neighbouring pure calls run
//! beside each other. Results stand in the line's order whatever order they came in. What people are
//! asked opens at once for the whole line, so that it can be answered together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::decision::Decision;
use super::verdict;
use crate::agent::EffectClass;
use crate::event::{Answer, AtLimit, Fact, InterruptKind, LimitAsked, Outcome, StepMode, Verdict};
use crate::id::{CallKey, Digest, InterruptId, Principal, ToolName};
use crate::input::{Arguments, CallView, KnownCall, View};
use crate::message::{Block, Content, Message};
use crate::policy::Terms;
use crate::state::{Call, CallStatus, Changed, ENGINE, Line, Phase, Run};

/// Where a call stands after the facts of this decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    New,
    Previewing {
        recheck: bool,
    },
    Asking,
    Ready,
    Started,
    /// It goes on at a time.
    Deferred,
    /// Its outcome is being looked for.
    Reconciling,
    Done,
}

impl Place {
    fn of(status: &CallStatus) -> Self {
        match status {
            CallStatus::New => Self::New,
            CallStatus::Previewing { recheck } => Self::Previewing { recheck: *recheck },
            CallStatus::Asking(_) => Self::Asking,
            CallStatus::Ready => Self::Ready,
            CallStatus::Started => Self::Started,
            CallStatus::Deferred { .. } => Self::Deferred,
            CallStatus::Reconciling { .. } | CallStatus::Unresolved { .. } => Self::Reconciling,
            CallStatus::Done => Self::Done,
        }
    }
}

/// One call as this decision sees it.
pub(super) struct Seat<'a> {
    pub tool: &'a ToolName,
    pub arguments: Cow<'a, Content>,
    pub class: EffectClass,
    pub starts: u32,
    pub asks: u32,
    pub place: Place,
    pub approval: Digest,
    pub approved: bool,
    pub previews: bool,
    pub preview: Option<Digest>,
    pub terms: Terms,
}

/// The line after the facts of this decision: a few words per call of one step, whatever the thread's length.
pub(super) struct Overlay<'a> {
    pub run: &'a Run,
    pub step: u32,
    pub seats: Vec<Seat<'a>>,
    /// Limits that this decision raises.
    pub raised: BTreeMap<String, u64>,
    /// Whether the run has reached a limit that ends it.
    pub is_over: bool,
}

impl<'a> Seat<'a> {
    fn new(tool: &'a ToolName, arguments: &'a Content) -> Self {
        Self {
            tool,
            arguments: Cow::Borrowed(arguments),
            class: EffectClass::Once,
            starts: 0,
            asks: 0,
            place: Place::New,
            approval: Digest::default(),
            approved: false,
            previews: false,
            preview: None,
            terms: Terms::default(),
        }
    }

    fn of(call: &'a Call) -> Self {
        Self {
            class: call.class,
            starts: call.starts,
            asks: call.asks,
            place: Place::of(&call.status),
            approval: call.approval,
            approved: call.approved,
            previews: call.previews,
            preview: call.preview,
            terms: call.terms.clone(),
            ..Self::new(&call.tool, &call.arguments)
        }
    }
}

impl<'a> Overlay<'a> {
    /// The line of a reply that was just recorded.
    pub(super) fn new(run: &'a Run, message: &'a Message) -> Self {
        let seats = message.calls().map(|call| Seat::new(&call.name, &call.asked));
        Self { run, step: run.attempt.step, seats: seats.collect(), raised: BTreeMap::new(), is_over: false }
    }

    /// The line as the state has it.
    pub(super) fn of(run: &'a Run, line: &'a Line) -> Self {
        let seats = line.calls.iter().map(Seat::of).collect();
        Self { run, step: run.attempt.step, seats, raised: BTreeMap::new(), is_over: false }
    }

    pub(super) fn key(&self, index: usize) -> CallKey {
        CallKey { step: self.step, index: index as u32 }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.seats.iter().any(|seat| seat.place == Place::Started)
    }

    /// Records a result that no tool gave.
    pub(super) fn close(&mut self, d: &mut Decision<'_>, index: usize, outcome: Outcome, text: String) {
        self.finish(d, index, outcome, vec![Block::text(text)]);
    }

    /// Records a result.
    pub(super) fn finish(
        &mut self,
        d: &mut Decision<'_>,
        index: usize,
        outcome: Outcome,
        content: Vec<Block>,
    ) {
        self.seats[index].place = Place::Done;
        let error = !matches!(outcome, Outcome::Told | Outcome::Reconciled);
        d.record(Fact::ToolFinished { call: self.key(index), outcome, content, error, duration_ms: 0 });
    }

    /// Judges every call of a new reply.
    pub(super) fn judge(&mut self, d: &mut Decision<'_>, view: &View) {
        let limit = self.run.agent.limits.max_calls_per_step as usize;
        let all = self.seats.len();
        if all > limit {
            let (limit, figure) = ("max_calls_per_step".into(), limit as u64);
            d.record(Fact::LimitReached { limit, figure, refused: None });
        }
        for index in 0..all {
            if index >= limit {
                let text = format!(
                    "Not run: the step asked for {all} calls, and at most {limit} are run in one step."
                );
                self.close(d, index, Outcome::Refused, text);
            } else if self.run.mode == StepMode::Fallback {
                let text = "Not run: no steps are left, and the answer was asked for without tools.";
                self.close(d, index, Outcome::Refused, text.into());
            } else {
                self.admit(d, index, view);
            }
        }
    }

    /// Judges one call that has not started.
    pub(super) fn admit(&mut self, d: &mut Decision<'_>, index: usize, view: &View) {
        let known = match view.calls.get(index).unwrap_or(&CallView::Unknown) {
            // It is judged where its tool is.
            CallView::Unknown if d.lacks(self.seats[index].tool) => return,
            CallView::Unknown => {
                let error =
                    serde_json::json!({ "error": format!("Unknown tool: {}", self.seats[index].tool) });
                return self.close(d, index, Outcome::Refused, error.to_string());
            }
            CallView::Withheld { reason } => {
                let error = serde_json::json!({ "error": reason });
                return self.close(d, index, Outcome::Refused, error.to_string());
            }
            CallView::Known(known) => known,
        };
        if let Some(reason) = verdict::withheld(self.run, self.seats[index].tool, known) {
            let error = serde_json::json!({ "error": reason });
            return self.close(d, index, Outcome::Refused, error.to_string());
        }
        let sent = match &known.arguments {
            Arguments::AsAsked { .. } => None,
            Arguments::Repaired { arguments, .. } => Some(arguments),
            Arguments::Invalid { reason } => {
                let error = serde_json::json!({ "error": format!("Invalid arguments: {reason}") });
                return self.close(d, index, Outcome::Refused, error.to_string());
            }
        };
        if let Some(why) = known.asks.as_ref().and_then(|(kind, _)| kind.check().err()) {
            let error = serde_json::json!({ "error": format!("Invalid arguments: the question {why}") });
            return self.close(d, index, Outcome::Refused, error.to_string());
        }
        if self.is_over_its_limit(d, index) {
            return;
        }
        let judged = verdict::judge(d, self.run, self.seats[index].tool, known, view);
        if let Some(sent) = sent {
            self.seats[index].arguments = Cow::Owned(sent.clone());
        }
        self.judged(d, index, &judged, known, (sent, view.version));
        match (judged.verdict, &known.asks) {
            (Verdict::Deny, _) => self.denied(d, index, &judged),
            // A call that asks people needs no leave to ask them.
            (Verdict::Allow | Verdict::Ask, Some((kind, terms))) => {
                self.open(d, index, kind.clone(), terms.clone());
            }
            (Verdict::Allow, None) => self.seats[index].place = Place::Ready,
            (Verdict::Ask, None) => self.ask(d, index, judged),
        }
    }

    /// Records a verdict.
    pub(super) fn judged(
        &mut self,
        d: &mut Decision<'_>,
        index: usize,
        judged: &verdict::Judged,
        known: &KnownCall,
        (sent, view): (Option<&Content>, u64),
    ) {
        let call = self.key(index);
        let seat = &mut self.seats[index];
        // What was dispatched was dispatched as what it was then.
        seat.class = if seat.starts > 0 { seat.class } else { known.class };
        seat.previews = known.previews;
        let class = seat.class;
        if seat.approval != judged.approval {
            (seat.approval, seat.approved, seat.preview) = (judged.approval, false, None);
        }
        d.record(Fact::CallJudged {
            call,
            verdict: judged.verdict,
            rule: judged.by.clone(),
            class,
            arguments: sent.cloned(),
            view,
            approval: judged.approval,
            previews: known.previews,
        });
        if judged.verdict == Verdict::Allow {
            (self.seats[index].approved, self.seats[index].preview) = (false, None);
        }
        if let (Verdict::Allow, Some(grant)) = (judged.verdict, &judged.grant) {
            d.record(Fact::GrantUsed { call, grant: grant.clone() });
        }
    }

    /// Closes a call that the gate does not let through.
    pub(super) fn denied(&mut self, d: &mut Decision<'_>, index: usize, judged: &verdict::Judged) {
        let by = &judged.by;
        let why = judged.reason.as_ref().map(|reason| format!(" The reason: {reason}")).unwrap_or_default();
        if self.may_have_changed_something(index) {
            let text = format!("Outcome unknown: repeating the call was denied by policy (`{by}`).{why}");
            return self.close(d, index, Outcome::InDoubt, text);
        }
        let text =
            format!("Tool call was denied by policy (`{by}`). Do not retry it; find another way.{why}");
        self.close(d, index, Outcome::Denied, text);
    }

    /// Whether a call that is not running was dispatched before, and may have done what it does.
    pub(super) fn may_have_changed_something(&self, index: usize) -> bool {
        let seat = &self.seats[index];
        seat.starts > 0 && seat.class != EffectClass::Pure
    }

    /// Asks people about a call; where the tool can tell what the call would do, that is looked up first.
    pub(super) fn ask(&mut self, d: &mut Decision<'_>, index: usize, judged: verdict::Judged) {
        self.seats[index].terms = judged.terms;
        if let Some(reason) = judged.reason {
            let tool = self.seats[index].tool.clone();
            let terms = self.seats[index].terms.clone();
            self.open(d, index, InterruptKind::Hook { tool, reason }, terms);
            return;
        }
        if self.seats[index].previews {
            return self.look(d, index, false);
        }
        self.ask_for_approval(d, index, None);
    }

    /// Looks up what a call would do.
    pub(super) fn look(&mut self, d: &mut Decision<'_>, index: usize, recheck: bool) {
        let terms = self.seats[index].terms.clone();
        d.record(Fact::CallPreviewing { call: self.key(index), recheck, terms });
        self.seats[index].approved &= recheck;
        self.seats[index].place = Place::Previewing { recheck };
    }

    /// Opens the approval of a call.
    pub(super) fn ask_for_approval(
        &mut self,
        d: &mut Decision<'_>,
        index: usize,
        preview: Option<Content>,
    ) -> InterruptId {
        let seat = &self.seats[index];
        let kind = InterruptKind::Approval { tool: seat.tool.clone(), approval: seat.approval, preview };
        let terms = seat.terms.clone();
        self.open(d, index, kind, terms)
    }

    /// Opens an interrupt about a call.
    pub(super) fn open(
        &mut self,
        d: &mut Decision<'_>,
        index: usize,
        kind: InterruptKind,
        terms: Terms,
    ) -> InterruptId {
        let call = self.key(index);
        let seat = &mut self.seats[index];
        seat.place = Place::Asking;
        seat.approved &= !kind.is_about_leave();
        seat.preview = seat.preview.filter(|_| !matches!(kind, InterruptKind::Hook { .. }));
        let id = format!("{}.{}.{}.{}", self.run.id, call.step, call.index, seat.asks);
        let interrupt = InterruptId::from(id);
        seat.asks += 1;
        d.record(Fact::InterruptOpened { interrupt: interrupt.clone(), kind, call: Some(call), terms });
        interrupt
    }

    /// Says that a dispatched call's outcome is unknown, and asks.
    pub(super) fn doubt(&mut self, d: &mut Decision<'_>, index: usize, reason: String) {
        let call = self.key(index);
        d.record(Fact::ToolInDoubt { call, effect: d.effect(self.run, call), reason });
        let tool = self.seats[index].tool.clone();
        self.open(d, index, InterruptKind::InDoubt { tool }, Terms::default());
    }

    /// Looks for the outcome of a dispatched call by a read.
    pub(super) fn reconcile(&mut self, d: &mut Decision<'_>, index: usize, wait_ms: u64) {
        let until = d.now.plus_ms(wait_ms);
        d.record(Fact::ToolReconciling { call: self.key(index), attempt: 1, until });
        self.seats[index].place = Place::Reconciling;
    }

    /// Whether a tool's calls are used up; then somebody is asked, or the run will end.
    fn is_over_its_limit(&mut self, d: &mut Decision<'_>, index: usize) -> bool {
        let tool = self.seats[index].tool;
        let Some(usual) = self.run.agent.limits.max_calls.get(tool) else { return false };
        let limit = format!("max_calls.{tool}");
        let raised = self.raised.get(&limit).copied().unwrap_or_default();
        let figure = self.run.figure(&limit, u64::from(*usual)).max(raised);
        let before = self.seats[..index].iter().filter(|seat| seat.tool == tool && seat.starts == 0);
        let waiting =
            before.filter(|seat| !matches!(seat.place, Place::Done | Place::Started)).count() as u64;
        let started = u64::from(self.run.calls_of.get(tool).copied().unwrap_or_default());
        if started + waiting < figure {
            return false;
        }
        d.record(Fact::LimitReached { limit: limit.clone(), figure, refused: None });
        let asked = LimitAsked { limit, figure, used: started + waiting, next: None };
        match self.run.options.at_limit() {
            AtLimit::Ask => {
                self.open(d, index, InterruptKind::Limit(Box::new(asked)), Terms::default());
            }
            AtLimit::Fail | AtLimit::Answer => self.is_over = true,
        }
        true
    }

    /// Records the start of a call.
    pub(super) fn start(&mut self, d: &mut Decision<'_>, index: usize) {
        let call = self.key(index);
        let seat = &mut self.seats[index];
        seat.place = Place::Started;
        seat.starts += 1;
        let arguments = seat.arguments.digest();
        d.record(Fact::ToolStarted { call, effect: d.effect(self.run, call), arguments });
    }

    /// A limit that a call has reached stays, and ends the run.
    pub(super) fn give_up(&mut self, index: usize) {
        self.seats[index].place = Place::New;
        self.is_over = true;
    }

    /// Raises a limit that a call has reached. The interrupt is closed, so the call is not judged yet; it stays so if
    /// this process lacks its tool.
    pub(super) fn raise(&mut self, index: usize, limit: &str, to: u64) {
        let raised = self.raised.entry(limit.to_owned()).or_default();
        *raised = (*raised).max(to);
        self.seats[index].place = Place::New;
    }

    /// Closes the interrupt that is open about a call.
    pub(super) fn take_back(&self, d: &mut Decision<'_>, index: usize) {
        let (call, asks) = (self.key(index), self.seats[index].asks);
        let id = format!("{}.{}.{}.{}", self.run.id, call.step, call.index, asks - 1);
        let (answer, by) = (Answer::Withdrawn, Principal::from(ENGINE));
        d.record(Fact::InterruptClosed { interrupt: InterruptId::from(id), answer, by, roles: Vec::new() });
    }

    /// Starts every call that may start now.
    pub(super) fn start_next(&mut self, d: &mut Decision<'_>) {
        for index in self.startable(d) {
            self.begin(d, index);
        }
    }

    /// Starts a call whose place has come, also once more. What was approved beside a preview is looked up again before
    /// each start: another preview is another call. A key keeps the far side from doing it twice, not the world from
    /// changing. One whose tool is not here keeps its place, as it stands.
    pub(super) fn begin(&mut self, d: &mut Decision<'_>, index: usize) {
        let seat = &self.seats[index];
        if d.lacks(seat.tool) {
            return;
        }
        // What the rules let through nobody was shown, also where somebody has said since that it is to be repeated.
        let is_shown = seat.preview.is_some() || seat.starts == 0;
        if seat.approved && seat.previews && is_shown {
            self.look(d, index, true);
        } else {
            self.start(d, index);
        }
    }

    /// The calls whose place in the line has come.
    fn startable(&self, d: &Decision<'_>) -> Vec<usize> {
        let serialized = self.run.options.serialized;
        let parallel = if serialized { 1 } else { self.run.agent.limits.max_parallel_calls.max(1) as usize };
        let mut running = 0;
        let mut found = Vec::new();
        for (index, seat) in self.seats.iter().enumerate() {
            let ready = match seat.place {
                Place::Done => continue,
                Place::New | Place::Asking | Place::Previewing { recheck: false } => break,
                // Its turn has come, and its tool is not here: those behind it wait with it.
                Place::Ready if d.lacks(seat.tool) => break,
                Place::Started
                | Place::Deferred
                | Place::Reconciling
                | Place::Previewing { recheck: true } => false,
                Place::Ready => true,
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

/// The line of a run, where it has one.
pub(super) fn overlay(run: &Run) -> Option<Overlay<'_>> {
    match &run.phase {
        Phase::Calls(line) => Some(Overlay::of(run, line)),
        Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => None,
    }
}

/// Tells the model what was really sent, where that is not what it asked.
pub(super) fn with_repair(call: &Call, content: &[Block]) -> Vec<Block> {
    let mut blocks = content.to_vec();
    let why = match call.changed {
        Some(Changed::Repaired) => "The arguments were corrected.",
        Some(Changed::Edited) => "A person changed the arguments before approving the call.",
        None => return blocks,
    };
    blocks.push(Block::text(match &call.arguments {
        Content::Inline(sent) => format!("({why} What was sent: {sent})"),
        Content::Blob(sent) => format!("({why} What was sent has {} bytes.)", sent.size_bytes),
    }));
    blocks
}
