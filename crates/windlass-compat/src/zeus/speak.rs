//! Encodes a thread's updates as frames of Zeus.
//!
//! The mapping is pure, with one encoder per stream. It reads no clock and no store, and makes no decision. (ZE-E8)

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass::Update;
use windlass::machine::{
    Event, Fact, InterruptId, InterruptKind, Run, RunError, RunId, RunStatus, Timestamp, Usage,
};
use windlass::port::journal::ThreadStatus;
use windlass::port::model::Delta;
use windlass_server::http::failure::{Failure, explain};

use super::super::flow::{Flow, said};
use super::super::stream::Speaker;
use super::super::turn::{Heard, Turn};
use super::calls::Calls;
use super::word::Scene;
use crate::call::text;

/// Maximum length of an answer's summary in characters: one line of a list.
const SUMMARY_CHARS: usize = 200;

/// The encoder of one stream.
#[derive(Debug)]
pub struct Zeus {
    scene: Scene,
    turn: Turn,
    model: String,
    step: u32,
    /// The part of the reply that was sent.
    text: Flow,
    calls: Calls,
    /// The text of each step's reply.
    replies: BTreeMap<u32, String>,
    is_over: bool,
}

impl Zeus {
    /// Creates an encoder for a run that a message has started or will start.
    pub fn new(scene: Scene, run: RunId) -> Self {
        Self {
            scene,
            turn: Turn::new(run),
            model: String::new(),
            step: 0,
            text: Flow::default(),
            calls: Calls::default(),
            replies: BTreeMap::new(),
            is_over: false,
        }
    }

    /// Creates an encoder for an active run.
    pub fn beside(scene: Scene, run: &Run) -> Self {
        Self {
            turn: Turn::now(run.id.clone()),
            model: run.step_model.to_string(),
            step: run.attempt.step,
            calls: Calls::resumed(run),
            ..Self::new(scene, run.id.clone())
        }
    }

    /// Hides interrupts that the client's `modified` has already answered.
    pub fn confirmed(mut self, interrupts: Vec<InterruptId>) -> Self {
        self.calls.confirm(interrupts);
        self
    }

    /// Encodes an event of the stream's run.
    fn own(&mut self, event: &Event) -> Vec<String> {
        match &event.fact {
            Fact::StepStarted { attempt, model, .. } => {
                if attempt.attempt == 1 {
                    self.text = Flow::default();
                }
                (self.step, self.model) = (attempt.step, model.to_string());
                self.calls.restart();
                Vec::new()
            }
            Fact::StepReplied { attempt, message, usage, .. } => {
                let whole = said(message);
                let mut frames: Vec<String> =
                    self.text.set(&whole).map(|rest| self.fragment(&rest)).into_iter().collect();
                frames.extend(self.usage(usage));
                self.replies.insert(attempt.step, whole);
                self.calls.replied(self.turn.run(), attempt.step, message);
                frames
            }
            Fact::StepFailed { .. } => {
                self.text.fail();
                self.calls.restart();
                Vec::new()
            }
            Fact::InterruptOpened { kind: InterruptKind::Limit(limit), call: None, .. } => {
                let message = format!("{} of {} `{}` are used", limit.used, limit.figure, limit.limit);
                self.fails(&RunError { code: "ERR_LIMIT".into(), message, retryable: true })
            }
            Fact::RunFinished { .. } => self.finished(event),
            _ => self.calls.hear(&self.scene, event), // tidy: other events of this dialect are about calls
        }
    }

    /// Encodes a fragment of the answer. (ZE-S1)
    fn fragment(&self, content: &str) -> String {
        self.scene.frame("text", json!({"content": content, "role": "assistant"}))
    }

    /// Encodes the tokens of a model call. Returns `None` if the provider reported none. (ZE-S6)
    fn usage(&self, usage: &Usage) -> Option<String> {
        usage.input.or(usage.output)?;
        let data = json!({
            "prompt_tokens": usage.input.unwrap_or(0),
            "completion_tokens": usage.output.unwrap_or(0),
            "model": self.model,
        });
        Some(self.scene.frame("token_usage", data))
    }

    fn finished(&mut self, event: &Event) -> Vec<String> {
        let Fact::RunFinished { status, output, error, .. } = &event.fact else { return Vec::new() };
        let own = output.text.as_ref().map(text).unwrap_or_default();
        let mut frames: Vec<String> =
            self.text.push(own).map(|rest| self.fragment(&rest)).into_iter().collect();
        let mut content = String::new();
        if let Some((first, last)) = output.replies {
            content.extend(self.replies.range(first..=last).map(|(_, reply)| reply.as_str()));
        }
        content.push_str(own);
        frames.extend(match (status, error) {
            (RunStatus::Done, _) => self.ends(&content, "completed"),
            // The client keeps the partial answer. (ZE-P8)
            (RunStatus::Cancelled, _) => self.ends(&content, "stopped"),
            (RunStatus::Failed, Some(error)) => self.fails(error),
            (RunStatus::Failed, None) => {
                let message = "the run failed".to_owned();
                self.fails(&RunError { code: "ERR_RUN".into(), message, retryable: false })
            }
        });
        frames
    }

    /// Ends the run. (ZE-S4, ZE-E9)
    fn ends(&mut self, content: &str, status: &str) -> Vec<String> {
        self.is_over = true;
        let summary = windlass_server::text::first_line(content, SUMMARY_CHARS);
        vec![self.scene.frame("complete", json!({"content": content, "summary": summary, "status": status}))]
    }

    /// Ends a failed run. The details contain a hint and the provider's message, and no internals. (ZE-S5, ZE-X4)
    fn fails(&mut self, error: &RunError) -> Vec<String> {
        let Failure { code, words, hint } = explain(error);
        let details = json!({"hint": hint, "cause": error.message, "retryable": error.retryable});
        self.error(words, code, details)
    }

    fn error(&mut self, words: &str, code: &str, details: Value) -> Vec<String> {
        self.is_over = true;
        vec![self.scene.frame("error", json!({"error": words, "error_code": code, "details": details}))]
    }

    /// Ends the stream because the thread stopped before the stream's run began.
    fn is_left(&mut self, words: &str, hint: &str) -> Vec<String> {
        self.error(words, "ERR_QUEUED", json!({"hint": hint, "retryable": false}))
    }
}

impl Speaker for Zeus {
    fn hear(&mut self, update: &Update, _now: Timestamp) -> Vec<String> {
        match update {
            Update::Event(recorded) => match self.turn.hear(&recorded.event) {
                Heard::Own => self.own(&recorded.event),
                Heard::TakenBack => self.ends("", "stopped"),
                Heard::Nothing => Vec::new(),
            },
            Update::Delta { delta, .. } if self.turn.is_now() => match delta {
                Delta::Text { text, .. } => {
                    self.text.push(text).map(|fresh| self.fragment(&fresh)).into_iter().collect()
                }
                Delta::Reasoning { .. } => Vec::new(),
                Delta::Call { part, name, arguments } => {
                    let (run, name) = (self.turn.run(), name.as_deref());
                    let told = self.calls.fragment(&self.scene, run, self.step, *part, name, arguments);
                    told.into_iter().collect()
                }
            },
            Update::Snapshot { parts, .. } if self.turn.is_now() => {
                self.calls.tear();
                let texts = parts.iter().filter_map(|part| match part {
                    Delta::Text { text, .. } => Some(text.as_ref()),
                    Delta::Reasoning { .. } | Delta::Call { .. } => None,
                });
                let whole: String = texts.collect();
                self.text.set(&whole).map(|fresh| self.fragment(&fresh)).into_iter().collect()
            }
            Update::Delta { .. } | Update::Snapshot { .. } | Update::Progress { .. } => Vec::new(),
            // The interrupt was sent with its call. The next stream begins with a resume request.
            Update::Status(ThreadStatus::Waiting) if self.turn.is_now() => {
                self.is_over = true;
                Vec::new()
            }
            Update::Status(ThreadStatus::Waiting) if self.turn.is_queued() => self.is_left(
                "the previous run is waiting for an answer",
                "answer it first; the message is queued and read afterwards",
            ),
            Update::Status(ThreadStatus::Idle) if self.turn.is_queued() => self.is_left(
                "the previous run ended without taking the message",
                "the message is queued; send it with the queue of `/api/v1`, or send another one",
            ),
            Update::Status(
                ThreadStatus::Waiting | ThreadStatus::Idle | ThreadStatus::Running | ThreadStatus::Sleeping,
            ) => Vec::new(),
            Update::Stopped { why } => {
                self.is_over = true;
                self.breaks(why)
            }
        }
    }

    fn breaks(&self, why: &str) -> Vec<String> {
        let details = json!({"hint": "request the session again in a moment; no recorded data was lost", "retryable": true});
        let words = format!("the stream ended, and the run continues: {why}");
        vec![
            self.scene
                .frame("error", json!({"error": words, "error_code": "ERR_STREAM", "details": details})),
        ]
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
