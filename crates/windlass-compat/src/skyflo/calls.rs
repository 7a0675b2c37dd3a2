//! The call events of a run: pending, awaiting approval, approved or denied, executing, done.
//!
//! This module encodes the recorded events. It makes no verdicts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass::machine::{
    Answer, CallKey, Event, Fact, InterruptId, InterruptKind, Message, Outcome, Run, RunId, Timestamp,
    Verdict,
};

use super::word::{Scene, Word};
use crate::call::{Call, args, blocks, is_failure, plain};

/// The calls of the current step.
#[derive(Debug, Default)]
pub struct Calls {
    known: BTreeMap<CallKey, Known>,
    asked: BTreeMap<InterruptId, CallKey>,
    /// Events held back until every call of the reply has a verdict; `None` afterwards.
    held: Option<Vec<Word>>,
}

#[derive(Debug)]
struct Known {
    call: Call,
    needs_approval: bool,
    is_judged: bool,
    is_denied: bool,
}

impl Known {
    fn new(call: Call) -> Self {
        Self { call, needs_approval: false, is_judged: false, is_denied: false }
    }
}

impl Calls {
    /// Restores the calls of a step that began before the stream. An earlier stream
    /// sent these calls as pending. (SK-E10)
    pub fn resumed(run: &Run) -> Self {
        let mut calls = Self::default();
        let windlass::machine::Phase::Calls(line) = &run.phase else { return calls };
        for (index, call) in (0..).zip(&line.calls) {
            let key = CallKey { step: run.attempt.step, index };
            let known = Known::new(Call::of_state(&run.id, key, call));
            if let Some(asked) = call.status.asked() {
                calls.asked.insert(asked.interrupt.clone(), key);
            }
            calls.known.insert(key, known);
        }
        calls
    }

    /// Encodes the open approval requests of a run.
    pub fn open(&self, scene: &Scene, run: &Run) -> Vec<Word> {
        let open = run.open().filter_map(|(index, asked)| {
            let key = CallKey { step: run.attempt.step, index: u32::try_from(index?).ok()? };
            Some(awaiting(scene, asked.since, &self.known.get(&key)?.call, &asked.kind))
        });
        open.collect()
    }

    /// Sets the calls of a new reply.
    pub fn replied(&mut self, run: &RunId, step: u32, message: &Message) {
        self.known = Call::of_reply(run, step, message).map(|(key, call)| (key, Known::new(call))).collect();
        self.asked.clear();
        self.held = (!self.known.is_empty()).then(Vec::new);
    }

    /// Encodes an event.
    pub fn hear(&mut self, scene: &Scene, event: &Event) -> Vec<Word> {
        let word = self.word(scene, event);
        let all_judged = match &event.fact {
            Fact::CallJudged { .. } | Fact::GrantUsed { .. } | Fact::ToolFinished { .. } => {
                self.known.values().all(|known| known.is_judged)
            }
            _ => true, // tidy: every other event follows the verdicts
        };
        let Some(held) = &mut self.held else { return word.into_iter().collect() };
        held.extend(word);
        if !all_judged {
            return Vec::new();
        }
        let held = self.held.take().unwrap_or_default();
        self.pending(scene, event.at).into_iter().chain(held).collect()
    }

    fn word(&mut self, scene: &Scene, event: &Event) -> Option<Word> {
        match &event.fact {
            Fact::CallJudged { call, verdict, arguments, .. } => {
                let known = self.known.get_mut(call)?;
                known.call.apply(&event.fact);
                (known.is_judged, known.needs_approval) = (true, *verdict == Verdict::Ask);
                if let Some(arguments) = arguments {
                    known.call.args = args(arguments);
                }
                None
            }
            Fact::CallEdited { call, arguments, .. } => {
                let known = self.known.get_mut(call)?;
                known.call.apply(&event.fact);
                known.call.args = args(arguments);
                None
            }
            Fact::InterruptOpened { interrupt, kind, call: Some(call), .. } => {
                let known = self.known.get_mut(call)?;
                known.call.apply(&event.fact);
                self.asked.insert(interrupt.clone(), *call);
                Some(awaiting(scene, event.at, &known.call, kind))
            }
            Fact::InterruptClosed { interrupt, answer, .. } => {
                let known = self.known.get_mut(self.asked.get(interrupt)?)?;
                let name = match said(answer)? {
                    Said::Yes => "tool.approved",
                    Said::No => "tool.denied",
                };
                known.is_denied = name == "tool.denied";
                Some(scene.word(name, event.at, known.call.data().into()))
            }
            Fact::ToolStarted { call, .. } => {
                let call = &self.known.get(call)?.call;
                (!call.is_meta()).then(|| scene.word("tool.executing", event.at, call.data().into()))
            }
            Fact::ToolFinished { call, .. } => {
                let known = self.known.get_mut(call)?;
                known.is_judged = true;
                known.finished(scene, event)
            }
            _ => None, // tidy: the other kinds say nothing of a call that clients see
        }
    }

    /// Returns the pending event with the verdicts of all calls. (SK-E10)
    fn pending(&self, scene: &Scene, at: Timestamp) -> Option<Word> {
        let shown = self.known.values().filter(|known| !known.call.is_meta());
        let tools: Vec<Value> = shown.map(|known| known.pending(at).into()).collect();
        (!tools.is_empty()).then(|| scene.word("tools.pending", at, json!({"tools": tools})))
    }
}

impl Known {
    fn pending(&self, at: Timestamp) -> Map<String, Value> {
        let mut data = self.call.data();
        data.insert("requires_approval".into(), self.needs_approval.into());
        data.insert("timestamp".into(), at.0.into());
        data
    }

    /// Encodes a result. (SK-E12..E14)
    fn finished(&mut self, scene: &Scene, event: &Event) -> Option<Word> {
        let Fact::ToolFinished { outcome, content, error, .. } = &event.fact else { return None };
        if *outcome == Outcome::Denied {
            // A person's denial was sent when the person answered; a rule's denial is sent now.
            let told = std::mem::replace(&mut self.is_denied, true);
            return (!told).then(|| scene.word("tool.denied", event.at, self.call.data().into()));
        }
        if self.call.is_meta() {
            return None;
        }
        let mut data = self.call.title();
        let name = if is_failure(*outcome, *error) {
            data.insert("error".into(), plain(content).into());
            "tool.error"
        } else {
            data.insert("result".into(), blocks(content).into());
            "tool.result"
        };
        Some(scene.word(name, event.at, data.into()))
    }
}

/// An answer reduced to yes or no.
pub enum Said {
    /// The call may run.
    Yes,
    /// The call may not run.
    No,
}

/// Reduces an answer to yes or no. Returns `None` if the request was withdrawn.
pub fn said(answer: &Answer) -> Option<Said> {
    match answer {
        Answer::Approve
        | Answer::Edit { .. }
        | Answer::Reply(_)
        | Answer::Done { .. }
        | Answer::Retry
        | Answer::Raise { .. } => Some(Said::Yes),
        Answer::Deny { .. } | Answer::Fail { .. } | Answer::Stop => Some(Said::No),
        Answer::Withdrawn => None,
    }
}

/// Creates the event for a call that waits for a person. The context contains everything besides the approval. (SK-E11)
fn awaiting(scene: &Scene, at: Timestamp, call: &Call, kind: &InterruptKind) -> Word {
    let mut data = call.data();
    let mut context = json!({"conversation_id": scene.conversation});
    let (key, asked): (_, Value) = match kind {
        InterruptKind::Approval { preview, .. } => {
            let preview = preview.as_ref().map(crate::call::text);
            ("preview", preview.into())
        }
        InterruptKind::Hook { reason, .. } => ("reason", reason.as_str().into()),
        InterruptKind::Question(question) => ("question", question.summary.as_str().into()),
        InterruptKind::SignIn { url, .. } => ("sign_in", url.as_str().into()),
        InterruptKind::Handoff { runner } => ("runner", runner.as_str().into()),
        InterruptKind::InDoubt { .. } => ("in_doubt", true.into()),
        InterruptKind::Limit(limit) => ("limit", limit.limit.as_str().into()),
    };
    if !asked.is_null() {
        context[key] = asked;
    }
    data.insert("context".into(), context);
    scene.word("tool.awaiting_approval", at, data.into())
}
