//! The call events of a run: streaming, decided, running, done.
//!
//! Calls are distinguished by their ids, not by the order in which they end. (ZE-H2)

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass::machine::{
    CallKey, Event, Fact, InterruptId, InterruptKind, Message, Outcome, Phase, Run, RunId, Verdict,
};

use super::super::call::is_failure;
use super::word::Scene;
use crate::call::{Call, args, outward_id, plain, text};

/// The calls of the current step.
#[derive(Debug, Default)]
pub struct Calls {
    known: BTreeMap<CallKey, Known>,
    /// Calls whose arguments are streaming: the part of the reply, and the tool's name.
    written: Vec<(u32, String)>,
    /// Whether fragments were missed. Later fragments would leave a gap in the arguments.
    is_torn: bool,
    /// Interrupts that are already answered.
    confirmed: Vec<InterruptId>,
}

#[derive(Debug)]
struct Known {
    call: Call,
    is_told: bool,
    is_asked: bool,
}

impl Known {
    fn new(call: Call) -> Self {
        Self { call, is_told: false, is_asked: false }
    }
}

impl Calls {
    /// Restores the calls of a step that began before the stream. An earlier stream sent these calls.
    pub fn resumed(run: &Run) -> Self {
        let mut calls = Self::default();
        let Phase::Calls(line) = &run.phase else { return calls };
        for (index, call) in (0..).zip(&line.calls) {
            let key = CallKey { step: run.attempt.step, index };
            let told = Call::of_state(&run.id, key, call);
            let is_asked = call.status.asked().is_some();
            calls.known.insert(key, Known { call: told, is_told: true, is_asked });
        }
        calls
    }

    /// Excludes interrupts that are already answered.
    pub fn confirm(&mut self, interrupts: Vec<InterruptId>) {
        self.confirmed = interrupts;
    }

    /// Resets the state for a new attempt.
    pub fn restart(&mut self) {
        self.written.clear();
        self.is_torn = false;
    }

    /// Stops sending fragments, because some were missed. The complete calls are sent later.
    pub fn tear(&mut self) {
        self.is_torn = true;
    }

    /// Encodes a fragment of a call's arguments. (ZE-S7)
    pub fn fragment(
        &mut self,
        scene: &Scene,
        run: &RunId,
        step: u32,
        part: u32,
        name: Option<&str>,
        fragment: &str,
    ) -> Option<String> {
        if self.is_torn {
            return None;
        }
        let at = self.written.iter().position(|(known, _)| *known == part).unwrap_or_else(|| {
            self.written.push((part, String::new()));
            self.written.len() - 1
        });
        let tool = &mut self.written[at].1;
        if let Some(name) = name {
            name.clone_into(tool);
        }
        let key = CallKey { step, index: u32::try_from(at).ok()? };
        let data = json!({"tool_call_id": outward_id(run, key), "tool_name": tool, "args": fragment});
        Some(scene.frame("tool_call_chunk", data))
    }

    /// Sets the calls of a new reply.
    pub fn replied(&mut self, run: &RunId, step: u32, message: &Message) {
        self.known = Call::of_reply(run, step, message).map(|(key, call)| (key, Known::new(call))).collect();
        self.restart();
    }

    /// Encodes an event.
    pub fn hear(&mut self, scene: &Scene, event: &Event) -> Vec<String> {
        match &event.fact {
            Fact::CallJudged { call, verdict, arguments, .. } => {
                let Some(known) = self.known.get_mut(call) else { return Vec::new() };
                known.call.apply(&event.fact);
                if let Some(arguments) = arguments {
                    known.call.args = args(arguments);
                }
                match verdict {
                    Verdict::Allow | Verdict::Deny => vec![known.decided(scene)],
                    // The request is sent when the interrupt opens, which may take a preview.
                    Verdict::Ask => Vec::new(),
                }
            }
            Fact::CallEdited { call, arguments, .. } => {
                if let Some(known) = self.known.get_mut(call) {
                    known.call.apply(&event.fact);
                    known.call.args = args(arguments);
                }
                Vec::new()
            }
            // An answered interrupt leaves the call's id unchanged: the client knows that id.
            Fact::InterruptOpened { interrupt, .. } if self.confirmed.contains(interrupt) => Vec::new(),
            Fact::InterruptOpened { kind, call: Some(call), .. } => {
                let Some(known) = self.known.get_mut(call) else { return Vec::new() };
                known.call.apply(&event.fact);
                vec![known.asks(scene, kind)]
            }
            Fact::ToolStarted { call, .. } => {
                let known = self.known.get_mut(call).filter(|known| known.is_asked);
                known.map(|known| known.decided(scene)).into_iter().collect()
            }
            Fact::ToolFinished { call, .. } => {
                let known = self.known.get_mut(call);
                known.map(|known| known.finished(scene, event)).unwrap_or_default()
            }
            _ => Vec::new(), // tidy: the other kinds say nothing of a call that clients see
        }
    }

    /// Encodes a run's open interrupts for a later client, except those that the request answers.
    pub fn open(&mut self, scene: &Scene, run: &Run, answered: &[InterruptId]) -> Vec<String> {
        let step = run.attempt.step;
        let mut told = Vec::new();
        for (index, asked) in run.open().filter(|(_, asked)| !answered.contains(&asked.interrupt)) {
            let Some(index) = index.and_then(|index| u32::try_from(index).ok()) else { continue };
            if let Some(known) = self.known.get_mut(&CallKey { step, index }) {
                told.push(known.asks(scene, &asked.kind));
            }
        }
        told
    }
}

impl Known {
    fn data(&self, requires_approval: bool) -> Map<String, Value> {
        let mut data = self.name();
        data.insert("parameters".into(), self.call.args.clone());
        data.insert("requires_approval".into(), requires_approval.into());
        let status = if requires_approval { "pending" } else { "running" };
        data.insert("status".into(), status.into());
        data
    }

    fn name(&self) -> Map<String, Value> {
        let mut data = Map::new();
        data.insert("tool_call_id".into(), self.call.id.as_str().into());
        data.insert("tool_name".into(), self.call.tool.as_str().into());
        data
    }

    /// Encodes a call that needs no decision or already has one. (ZE-S2)
    fn decided(&mut self, scene: &Scene) -> String {
        (self.is_told, self.is_asked) = (true, false);
        scene.frame("tool_call", self.data(false).into())
    }

    /// Encodes a call that needs a decision. (ZE-H3, ZE-H8)
    fn asks(&mut self, scene: &Scene, kind: &InterruptKind) -> String {
        (self.is_told, self.is_asked) = (true, true);
        let mut data = self.data(true);
        if let Some((name, value)) = asked(kind) {
            data.insert(name.into(), value);
        }
        scene.frame("tool_call", data.into())
    }

    /// Encodes a result. (ZE-S3)
    fn finished(&mut self, scene: &Scene, event: &Event) -> Vec<String> {
        let Fact::ToolFinished { outcome, content, error, .. } = &event.fact else { return Vec::new() };
        let first = (!self.is_told).then(|| self.decided(scene));
        let mut data = self.name();
        data.insert("result".into(), plain(content).into());
        data.insert("is_error".into(), is_failure(*outcome, *error).into());
        let status = if *outcome == Outcome::Denied { "rejected" } else { "completed" };
        data.insert("status".into(), status.into());
        first.into_iter().chain([scene.frame("tool_call_result", data.into())]).collect()
    }
}

/// Returns the data that an interrupt shows a person in addition to the call.
fn asked(kind: &InterruptKind) -> Option<(&'static str, Value)> {
    match kind {
        InterruptKind::Approval { preview, .. } => Some(("preview", text(preview.as_ref()?).into())),
        InterruptKind::Hook { reason, .. } => Some(("reason", reason.as_str().into())),
        InterruptKind::Question(question) => {
            let asked = json!({
                "checkpoint": question.checkpoint,
                "summary": question.summary,
                "params": question.params,
                "options": question.options,
                "allow_free_input": question.free_input,
            });
            Some(("question", asked))
        }
        InterruptKind::SignIn { url, .. } => Some(("sign_in", url.as_str().into())),
        InterruptKind::Handoff { runner } => Some(("runner", runner.as_str().into())),
        InterruptKind::InDoubt { .. } => Some(("in_doubt", true.into())),
        InterruptKind::Limit(limit) => Some(("limit", limit.limit.as_str().into())),
    }
}
