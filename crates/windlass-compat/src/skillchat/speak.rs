//! Encodes a run's updates as frames of this dialect.
//!
//! The mapping is pure, with one encoder per stream. It sends fragments as they arrive, with their white space.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass::Update;
use windlass::machine::{
    CallKey, Event, Fact, InterruptId, InterruptKind, RunError, RunId, RunStatus, Timestamp,
};
use windlass::port::journal::ThreadStatus;
use windlass::port::model::Delta;

use super::super::flow::{Flow, said};
use super::super::stream::Speaker;
use super::super::turn::{Heard, Turn};
use super::chat::{LAST_RESORT, reason};
use super::checkpoint::Asked;
use crate::call::{Call, args, text};

/// The mood of every answer. The other moods belong to the tutor.
pub const MOOD: &str = "neutral";

/// Separates the texts of two steps.
const BETWEEN: &str = "\n\n";

/// The encoder of one stream.
#[derive(Debug)]
pub struct SkillChat {
    session: String,
    stream: String,
    turn: Turn,
    text: Flow,
    /// Whether any text was sent.
    is_shown: bool,
    /// Whether the next text begins a new step after earlier text.
    is_fresh: bool,
    replies: BTreeMap<u32, String>,
    calls: BTreeMap<CallKey, Call>,
    open: Vec<(InterruptId, Option<CallKey>, InterruptKind)>,
    is_over: bool,
}

impl SkillChat {
    /// Creates an encoder for a run that a message has started or will start.
    pub fn new(session: String, stream: String, run: RunId) -> Self {
        Self {
            session,
            stream,
            turn: Turn::new(run),
            text: Flow::default(),
            is_shown: false,
            is_fresh: false,
            replies: BTreeMap::new(),
            calls: BTreeMap::new(),
            open: Vec::new(),
            is_over: false,
        }
    }

    /// Encodes an event of the stream's run.
    fn own(&mut self, event: &Event) -> Vec<String> {
        match &event.fact {
            Fact::StepStarted { attempt, .. } if attempt.attempt == 1 => {
                self.text = Flow::default();
                self.is_fresh = self.is_shown;
                Vec::new()
            }
            Fact::StepReplied { attempt, message, .. } => {
                let whole = said(message);
                let rest = self.text.set(&whole);
                self.replies.insert(attempt.step, whole);
                let run = self.turn.run().clone();
                self.calls = Call::of_reply(&run, attempt.step, message).collect();
                self.token(rest)
            }
            Fact::StepFailed { .. } => {
                self.text.fail();
                Vec::new()
            }
            Fact::CallJudged { call, arguments: Some(arguments), .. }
            | Fact::CallEdited { call, arguments, .. } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.args = args(arguments);
                }
                Vec::new()
            }
            Fact::InterruptOpened { interrupt, kind, call, .. } => {
                self.open.push((interrupt.clone(), *call, kind.clone()));
                Vec::new()
            }
            Fact::InterruptClosed { interrupt, .. } => {
                self.open.retain(|(open, ..)| open != interrupt);
                Vec::new()
            }
            Fact::RunFinished { .. } => self.finished(event),
            _ => Vec::new(), // tidy: clients of this dialect see no calls
        }
    }

    /// Encodes the next part of the answer. (WT-E2)
    fn token(&mut self, fresh: Option<String>) -> Vec<String> {
        let Some(fresh) = fresh else { return Vec::new() };
        let between = if std::mem::take(&mut self.is_fresh) { BETWEEN } else { "" };
        self.is_shown = true;
        vec![self.frame("token", json!({"token": format!("{between}{fresh}"), "session_id": self.session}))]
    }

    fn finished(&mut self, event: &Event) -> Vec<String> {
        let Fact::RunFinished { status, output, error, fallback, .. } = &event.fact else {
            return Vec::new();
        };
        let own = output.text.as_ref().map(text).unwrap_or_default();
        let rest = self.text.push(own);
        let mut frames = self.token(rest);
        let mut whole = String::new();
        if let Some((first, last)) = output.replies {
            whole.extend(self.replies.range(first..=last).map(|(_, reply)| reply.as_str()));
        }
        whole.push_str(own);
        if *status == RunStatus::Done && whole.trim().is_empty() {
            frames.extend(self.says_nothing());
            return frames;
        }
        frames.extend(match (status, error) {
            (RunStatus::Failed, Some(error)) => self.fails(error),
            (RunStatus::Done | RunStatus::Cancelled | RunStatus::Failed, _) => {
                self.done(json!({"message": whole, "model_fallback": fallback}))
            }
        });
        frames
    }

    /// Ends a failed run. Clients know no event for a failure, so the answer is a fixed text and
    /// the reason is in `error`. (WT-L12)
    fn fails(&mut self, error: &RunError) -> Vec<String> {
        self.says_instead(LAST_RESORT, reason(error))
    }

    /// Ends a run that produced no text.
    fn says_nothing(&mut self) -> Vec<String> {
        self.is_fresh = self.is_shown;
        let mut frames = self.token(Some(LAST_RESORT.to_owned()));
        frames.extend(self.done(json!({"message": LAST_RESORT, "model_fallback": true})));
        frames
    }

    fn says_instead(&mut self, words: &str, error: Value) -> Vec<String> {
        self.is_fresh = self.is_shown;
        let mut frames = self.token(Some(words.to_owned()));
        frames.extend(self.done(json!({"message": words, "model_fallback": true, "error": error})));
        frames
    }

    fn done(&mut self, data: Value) -> Vec<String> {
        self.is_over = true;
        let Value::Object(mut data) = data else { return Vec::new() };
        data.insert("session_id".into(), self.session.as_str().into());
        vec![self.frame("mood", json!({"mood": MOOD})), self.frame("done", data.into())]
    }

    /// Ends the stream with the run's first question.
    fn pauses(&mut self) -> Vec<String> {
        self.is_over = true;
        // Previews may arrive in any order, so the first call is chosen by key.
        let first = self.open.iter().min_by_key(|(_, call, _)| *call);
        let Some((interrupt, call, kind)) = first else { return Vec::new() };
        let call = call.and_then(|call| self.calls.get(&call));
        let arguments = call.map(|call| call.args.clone()).unwrap_or_default();
        let tool = call.map(|call| call.tool.as_str()).unwrap_or_default();
        let asked = Asked { interrupt, kind, tool, arguments: &arguments };
        let payload = asked.payload(&self.session);
        let done = json!({"session_id": self.session, "hitl": true});
        vec![self.frame("hitl_checkpoint", payload.into()), self.frame("done", done)]
    }

    fn frame(&self, name: &str, data: Value) -> String {
        // Callers pass objects only.
        let mut data = if let Value::Object(data) = data { data } else { Map::new() };
        data.insert("stream_id".into(), self.stream.as_str().into());
        format!("event: {name}\ndata: {}\n\n", Value::Object(data))
    }
}

impl Speaker for SkillChat {
    fn hear(&mut self, update: &Update, _now: Timestamp) -> Vec<String> {
        match update {
            Update::Event(recorded) => match self.turn.hear(&recorded.event) {
                Heard::Own => self.own(&recorded.event),
                Heard::TakenBack => {
                    let words = "The message was withdrawn.";
                    self.says_instead(words, json!({"code": "CANCELLED", "message": words}))
                }
                Heard::Nothing => Vec::new(),
            },
            Update::Delta { delta: Delta::Text { text, .. }, .. } if self.turn.is_now() => {
                let fresh = self.text.push(text);
                self.token(fresh)
            }
            Update::Snapshot { parts, .. } if self.turn.is_now() => {
                let texts = parts.iter().filter_map(|part| match part {
                    Delta::Text { text, .. } => Some(text.as_ref()),
                    Delta::Reasoning { .. } | Delta::Call { .. } => None,
                });
                let whole: String = texts.collect();
                let fresh = self.text.set(&whole);
                self.token(fresh)
            }
            Update::Delta { .. } | Update::Snapshot { .. } | Update::Progress { .. } => Vec::new(),
            Update::Status(ThreadStatus::Waiting) if self.turn.is_now() => self.pauses(),
            Update::Status(ThreadStatus::Waiting | ThreadStatus::Idle) if self.turn.is_queued() => {
                let words = "The message is queued: the previous run did not end successfully.";
                self.says_instead(words, json!({"code": "ERR_QUEUED", "message": words}))
            }
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
        let words = format!("The stream ended, and the run continues: {why}.");
        let error = json!({"code": "service_unavailable", "message": words});
        let done = json!({
            "message": words, "session_id": self.session, "model_fallback": true, "error": error,
        });
        vec![self.frame("mood", json!({"mood": MOOD})), self.frame("done", done)]
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
